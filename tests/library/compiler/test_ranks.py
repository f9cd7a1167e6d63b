"""Several ranks, and the libraries that wrap a model: the same model, compiled, in every rank."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from torch_runs import Runner, functions

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


@pytest.mark.parametrize("how", ["plain", "static", "unused", "no_sync", "small"])
def test_ddp_trains_the_same_model_on_every_rank(runner: Runner, how: str) -> None:
    run = runner.both(*TORCHRUN, "ddp.py", how)
    assert set(run.results) == {0, 1}
    assert run.results[0]["weights"] == run.results[1]["weights"]
    assert [rank["rank"] for rank in run.report["ranks"]] == [0, 1]
    assert all(graph["ranks"] == [0, 1] for graph in run.report["graphs"])
    assert "Net" in functions(run.report, "graphs")
    assert run.report["fallbacks"] == run.report["eager"] == []
    assert bool(run.report["notes"]) == (how == "small")


def test_fsdp2_trains_the_same_model_on_every_rank(runner: Runner) -> None:
    eager = runner.run(*TORCHRUN, "fsdp2.py", compiler="")
    run = runner.run(*TORCHRUN, "fsdp2.py")
    for rank in (0, 1):
        assert eager.results[rank]["losses"] == pytest.approx(run.results[rank]["losses"], rel=1e-5)
        for name, value in eager.results[rank]["whole"].items():
            for one, other in zip(value, run.results[rank]["whole"][name], strict=True):
                assert one == pytest.approx(other, abs=1e-4)
    assert functions(run.report, "graphs") == {"FSDPSequential"}
    assert run.report["fallbacks"] == run.report["eager"] == run.report["graph_breaks"] == []


def test_spawned_ranks_compile_and_report_each_for_itself(runner: Runner) -> None:
    run = runner.both("spawned.py")
    assert [(rank["rank"], rank["state"]) for rank in run.report["ranks"]] == [(0, "ended"), (1, "ended")]
    assert "Net" in functions(run.report, "graphs")


def test_a_forked_process_goes_on_with_what_is_compiled_and_reports_for_itself(runner: Runner) -> None:
    run = runner.both("forked.py")
    assert [(rank["rank"], rank["state"], rank["steps"]["count"]) for rank in run.report["ranks"]] == [
        (0, "ended", 8),
        (1, "ended", 16),
    ]
    assert len(run.report["graphs"]) == 2
    assert run.report["recompilations"] == run.report["eager"] == []


def test_a_training_in_a_forked_process_alone_is_compiled_and_no_module_is_said_to_stay_eager(runner: Runner) -> None:
    run = runner.both("forked_alone.py")
    assert functions(run.report, "graphs") == {"Net"}
    assert run.report["eager"] == run.report["warnings"] == []


def test_a_loop_with_accelerate_is_compiled(runner: Runner) -> None:
    if "accelerate" not in runner.python.has:
        pytest.skip("accelerate is not installed")
    report = runner.both("accelerated.py").report
    assert functions(report, "graphs") == {"Net"}
    assert report["recompilations"] == []


def test_a_module_of_lightning_is_compiled(runner: Runner) -> None:
    if "pytorch_lightning" not in runner.python.has:
        pytest.skip("pytorch-lightning is not installed")
    report = runner.both("lightning_fit.py", weights=1e-5).report
    assert functions(report, "graphs") >= {"Digits"}
    assert report["fallbacks"] == report["eager"] == []


def test_the_trainer_of_transformers_is_compiled(runner: Runner) -> None:
    if "transformers" not in runner.python.has or "accelerate" not in runner.python.has:
        pytest.skip("transformers or accelerate is not installed")
    report = runner.both("trainer.py").report
    assert "BertForSequenceClassification" in functions(report, "graphs")
    assert report["fallbacks"] == report["eager"] == []


def test_one_rank_compiles_and_the_others_load_what_it_has_compiled(runner: Runner, tmp_path: Path) -> None:
    environ = {"DLC_COMPILE_CACHE": str(tmp_path / "cache"), "TORCHINDUCTOR_CACHE_DIR": ""}
    cold = runner.run(*TORCHRUN, "ddp.py", "plain", environ=environ)
    ranks = [json.loads(path.read_text()) for path in (cold.folder / "report").glob("rank-*.json")]
    assert len(ranks) == 2
    compiled = [rank for rank in ranks if rank["cache_misses"]]
    assert len(compiled) == 1
    assert all(rank["cache_hits"] > 0 for rank in ranks if rank not in compiled)
    assert cold.results[0]["weights"] == cold.results[1]["weights"]
    assert not list((tmp_path / "cache").rglob(".turn-*"))


def test_ranks_wait_only_for_a_rank_that_compiles_the_same(runner: Runner) -> None:
    keys = runner.run("graph_keys.py").results[0]["keys"]
    assert keys["again"] == keys["first"]
    others = [key for name, key in keys.items() if name not in ("first", "again")]
    assert len({keys["first"], *others}) == len(others) + 1
