"""What benchmarks/compiler.py makes of its measurements, and how it ends where it cannot measure."""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return


def module(name: str) -> Any:
    return importlib.import_module(name)


def training(eager: float, compiling: float, compiled: float, compile_seconds: float) -> Any:
    """Five eager steps, one that compiles, six compiled ones."""
    steps = {"first_compiled_step": 6, "warm_up": {"steps": 1}, "speed_up": eager / compiled}
    seconds = [eager] * 5 + [compiling] + [compiled] * 6
    report = {"steps": steps, "compile_seconds": compile_seconds, "eager": []}
    return module("compiling.figures").Training(seconds, report=report)


def plain(seconds: float) -> Any:
    return module("compiling.figures").Training([9.0, 9.0, 9.0] + [seconds] * 9)


def measured(model: str = "bert", device: str = "cpu", **kinds: list[Any]) -> Any:
    figures = module("compiling.figures")
    return figures.Measured(figures.Case("pytorch", "inductor", model, device), **kinds)


def test_a_figure_is_the_median_over_the_repetitions_without_steps_that_warm_up() -> None:
    held = measured(
        eager=[plain(0.2), plain(0.4), plain(0.2)],
        cold=[training(0.2, 30.0, 0.1, 20.0), training(0.2, 30.0, 0.1, 22.0), training(0.2, 30.0, 0.05, 24.0)],
        warm=[training(0.2, 5.0, 0.1, 5.5)] * 3,
    )
    figure = module("compiling.figures").figure(held)
    assert figure.eager_ms == pytest.approx(200)
    assert figure.compiled_ms == pytest.approx(100)
    assert figure.ratio == pytest.approx(2)
    assert (figure.slowest, figure.fastest) == (pytest.approx(2), pytest.approx(4))
    assert figure.cold_seconds == 22.0
    assert figure.warm_percent == pytest.approx(25)
    assert figure.runs == 3


def test_break_even_is_the_first_step_at_which_both_trainings_took_the_same_time() -> None:
    eager = module("compiling.figures").Training([1.0] * 12)
    held = measured(eager=[eager], cold=[training(1.0, 11.0, 0.5, 9)], warm=[training(1.0, 2.5, 0.5, 1)])
    figure = module("compiling.figures").figure(held)
    assert figure.break_even == 6 + 20  # 10 s behind after 6 steps, and each later one wins half a second
    assert figure.break_even_warm == 6 + 3


def test_a_model_that_loses_never_breaks_even_and_is_in_the_table() -> None:
    figures = module("compiling.figures")
    loser = figures.figure(measured(eager=[plain(0.1)], cold=[training(0.1, 9.0, 0.2, 8)], warm=[]))
    assert loser.break_even is None
    assert "| 0.50 (0.50 to 0.50) |" in figures.table([loser], {})


def test_a_training_that_chose_a_way_is_measured_from_that_step_on_also_if_it_is_eager() -> None:
    figures = module("compiling.figures")
    chose = training(0.1, 9.0, 0.2, 8)
    chose.report["choosing"] = {"way": "eager", "from_step": 11}
    chose.seconds[10:] = [0.1, 0.1]
    figure = figures.figure(measured(eager=[plain(0.1)], cold=[chose], warm=[]))
    assert figure.ratio == pytest.approx(1.0)
    assert figures.table([figure], {}).endswith("| eager |")


def test_a_model_that_failed_is_in_the_table_with_the_reason() -> None:
    assert "| pytorch inductor vit | failed: exit code 1 |" in module("compiling.figures").table(
        [], {"pytorch inductor vit": "exit code 1"}
    )


def test_a_training_in_which_nothing_was_compiled_is_a_failure_with_the_reports_reason() -> None:
    stayed = training(0.1, 0.1, 0.1, 0)
    stayed.report["steps"]["first_compiled_step"] = None
    stayed.report["eager"] = [{"module": "Net", "reason": "no C++ compiler"}]
    with pytest.raises(ValueError, match=r"no step was compiled: Net: no C\+\+ compiler"):
        module("compiling.figures").figure(measured(eager=[plain(0.1)], cold=[stayed]))


def test_a_training_that_ended_before_its_choice_is_a_failure_that_says_so() -> None:
    ended = training(0.1, 9.0, 0.2, 8)
    ended.report["choosing"] = {"way": "", "from_step": None, "words": "no way was chosen yet"}
    with pytest.raises(ValueError, match=r"no way was chosen in 12 steps: no way was chosen yet"):
        module("compiling.figures").figure(measured(eager=[plain(0.1)], cold=[ended]))


def test_a_training_of_too_few_eager_steps_is_a_failure_that_says_so() -> None:
    held = measured(eager=[plain(0.1), module("compiling.figures").Training([9.0, 0.1])], cold=[])
    with pytest.raises(ValueError, match="only 2 eager steps: the host is too busy"):
        module("compiling.figures").figure(held)


def test_a_wrong_training_is_told_beside_one_that_differs_more_and_is_right() -> None:
    figures = module("compiling.figures")
    held = measured(eager=[plain(0.1)], cold=[training(0.1, 9, 0.1, 10)], warm=[training(0.1, 9, 0.1, 10)])
    held.eager = [figures.Training([0.1] * 12, losses=[4.0, 3.0, 2.0])]
    held.rounded = [figures.Training([0.1] * 12, losses=[4.0, 3.0, 2.2])]
    for kind, told in (("cold", [4.0, 3.1, 2.0]), ("warm", [4.0, 3.0, 2.7])):
        runs = [figures.Training(each.seconds, report=each.report, losses=told) for each in held.of(kind)]
        setattr(held, kind, runs)
    assert figures.figure(held).loss_difference.wrong_step == 2


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_a_failure_and_no_difference(loss: float) -> None:
    held = measured(eager=[plain(0.1)], cold=[training(0.1, 9, 0.1, 10)])
    figures = module("compiling.figures")
    held.eager = [figures.Training([0.1] * 12, losses=[1.0] * 12)]
    held.cold = [figures.Training(each.seconds, report=each.report, losses=[1.0, loss]) for each in held.cold]
    with pytest.raises(ValueError, match=rf"compiled: the loss of step 2 is {loss}"):
        figures.figure(held)


@pytest.mark.parametrize(("compiled", "met"), [(0.062, True), (0.064, False)])
def test_on_a_gpu_the_geometric_mean_is_held_to_its_goal(compiled: float, met: bool) -> None:
    figures = module("compiling.figures")
    held = [measured(name, "cuda", eager=[plain(0.1)], cold=[training(0.1, 1, compiled, 1)]) for name in ("a", "b")]
    row = figures.means([figures.figure(each) for each in held])[0]
    assert row.met is met
    assert row.ratio == pytest.approx(compiled / 0.1)


@pytest.mark.parametrize(
    ("device", "compiled", "met"),
    [("cpu", 0.102, True), ("cpu", 0.104, False), ("cuda", 0.099, True), ("cuda", 0.101, False)],
)
def test_no_model_may_lose_and_the_one_that_wins_least_is_named(device: str, compiled: float, met: bool) -> None:
    figures = module("compiling.figures")
    held = [
        measured(name, device, eager=[plain(0.1)] * 3, cold=[training(0.1, 1, seconds, 1)] * 3)
        for name, seconds in (("fast", 0.05), ("slow", compiled))
    ]
    row = figures.means([figures.figure(each) for each in held])[1]
    assert "inductor slow" in row.name
    assert row.met is met


@pytest.mark.parametrize(
    ("after", "why"), [([0.2], "by fewer than 3 runs"), ([0.2, 0.08, 0.2], "by runs of 0.50 to 1.25")]
)
def test_a_model_is_not_judged_by_few_runs_or_by_runs_that_differ(after: list[float], why: str) -> None:
    figures = module("compiling.figures")
    held = measured(eager=[plain(0.1)] * len(after), cold=[training(0.1, 1, seconds, 1) for seconds in after])
    row = figures.means([figures.figure(held)])[1]
    assert (row.met, row.goal) == (None, f"eager at least 0.97: cannot be told {why}")


def test_each_training_is_compared_with_the_eager_one_beside_it() -> None:
    """A host that is half as fast for a while changes no speed-up."""
    figures = module("compiling.figures")
    held = measured(
        eager=[plain(0.1), plain(0.2), plain(0.1)],
        cold=[training(0.1, 1, 0.1, 1)],
        warm=[training(seconds, 1, seconds, 1) for seconds in (0.1, 0.2, 0.1)],
    )
    figure = figures.figure(held)
    assert (figure.slowest, figure.fastest) == (pytest.approx(1), pytest.approx(1))


def test_each_model_of_tensorflow_is_held_to_the_goal_of_a_warm_compilation() -> None:
    figures = module("compiling.figures")
    held = [
        figures.Measured(
            figures.Case("tensorflow", "xla", name),
            [plain(0.1)], [training(0.1, 9, 0.1, 10)], [training(0.1, 9, 0.1, warm)],
        )
        for name, warm in (("a", 1.0), ("b", 3.5))
    ]  # fmt: skip
    row = figures.means([figures.figure(each) for each in held])[-1]
    assert row.ratio == pytest.approx(0.187, abs=0.001)
    assert (row.met, row.goal) == (False, "at most 0.30, the highest is 0.35")


@pytest.mark.parametrize(("warm", "met"), [(1.9, True), (2.1, False)])
def test_a_warm_compilation_is_held_to_its_share_of_a_cold_one(warm: float, met: bool) -> None:
    figures = module("compiling.figures")
    held = measured(eager=[plain(0.1)], cold=[training(0.1, 9, 0.1, 10)], warm=[training(0.1, 9, 0.1, warm)])
    rows = figures.means([figures.figure(held)])
    assert [row.met for row in rows] == [None, None, met]
    assert f"at most 0.20: {'met' if met else 'missed'}" in figures.row_table(rows)


def test_the_picture_has_a_pair_of_bars_for_each_model_and_kind() -> None:
    figures = module("compiling.figures")
    held = measured("<bert>", eager=[plain(0.2)], cold=[training(0.2, 9, 0.1, 10)], warm=[training(0.2, 9, 0.1, 2)])
    picture = ElementTree.fromstring(figures.svg([figures.figure(held)]))
    bars = [each for each in picture.findall(".//{*}rect") if each.get("x")]
    widths = [float(bar.get("width", 0)) for bar in bars]
    assert widths == [420.0, 210.0, 420.0, 84.0]
    assert "pytorch inductor <bert>" in [each.text for each in picture.findall(".//{*}text")]


@pytest.mark.parametrize("count", [6, 8, 20, 40])
def test_the_interval_of_paired_differences_leaves_out_less_than_a_twentieth(count: int) -> None:
    low, high = module("compiling.off").interval([float(place) for place in range(count)])
    outside = 2 * sum(math.comb(count, place) for place in range(int(low) + 1)) / 2**count
    beyond = 2 * sum(math.comb(count, place) for place in range(int(low) + 2)) / 2**count
    assert high == count - 1 - low
    assert outside <= 0.05 < beyond


def test_a_cost_of_which_all_pairs_are_sure_misses_the_goal() -> None:
    paired = module("compiling.off").Paired
    assert paired("a start", [(0.020, 0.010)] * 20).row.met is False
    assert paired("a start", [(0.020, 0.010), (0.010, 0.020)] * 10).row.met is True


def test_pairs_too_few_to_be_sure_meet_and_miss_nothing() -> None:
    row = module("compiling.off").Paired("a step", [(0.020, 0.010)] * 5).row
    assert row.met is None
    assert row.goal == "no sure difference (expected 6 pairs or more)"


def test_the_largest_batch_is_found_to_an_eighth() -> None:
    batches = module("compiling.batch")
    tried: list[int] = []

    def trial(_case: object, _runner: object, _kind: str, batch: int) -> bool:
        tried.append(batch)
        return batch <= 100

    for first in (8, 512):  # below what fits, and above
        batches.FIRST, batches.trial = first, trial
        found = batches.largest(None, None, "eager")
        assert 100 / 1.125 <= found <= 100
    assert len(tried) < 20
    importlib.reload(batches)


def benchmark(*arguments: str, packages: str = "") -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(BENCHMARKS / "compiler.py"), *arguments]
    environ = {**os.environ, "PYTHONPATH": packages}
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300, env=environ)


def test_a_python_without_the_framework_is_refused_before_anything_runs() -> None:
    done = benchmark("--torch-python", sys.executable)
    assert done.returncode == 1
    assert "lacks torch, transformers, which pytorch's trainings import" in done.stderr


def test_without_a_gpu_its_figures_are_refused_with_an_exit_code_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("__version__ = '2.13.0+cpu'\nclass cuda: is_available = staticmethod(bool)\n")
    (tmp_path / "transformers.py").write_text("")
    done = benchmark("--gpu", packages=str(tmp_path))
    assert done.returncode == 3
    assert f"--gpu: torch 2.13.0+cpu of {sys.executable} finds no GPU. Run it on a host with" in done.stderr


def test_an_unknown_model_is_refused() -> None:
    done = benchmark("--models", "bert,lenet")
    assert done.returncode == 2
    assert "--models: lenet: expected some of bert, gpt, resnet, vit, llama" in done.stderr


STAND_IN = """
import json, os, sys
asked = dict(zip(sys.argv[1::2], sys.argv[2::2]))
if asked["--model"] == "vit":
    sys.exit("no such layer")
cache = os.environ.get("DLC_COMPILE_CACHE", "")
warm = os.path.isdir(cache)
seconds = [0.2] * 5 + [3.0] + [0.1 if cache else 0.2] * 6
out = {"seconds": seconds, "peak_bytes": 0, "batch": 2, "framework": "stand-in 1.0", "device": "CPU"}
wrong = 1.005 if cache and asked["--model"] == "resnet" else 1.0
out["losses"] = [4.0] * 11 + [1.001 if "--rounding" in sys.argv else wrong]
open(asked["--out"], "w").write(json.dumps(out))
if cache:
    assert os.environ["DLC_COMPILER"] == "inductor"
    os.makedirs(cache, exist_ok=True)
    report = os.environ["DLC_COMPILER_REPORT"]
    os.makedirs(report)
    steps = {"first_compiled_step": 6, "warm_up": {"steps": 1}, "speed_up": 1.9}
    held = {"steps": steps, "compile_seconds": 2.0 if warm else 10.0, "eager": []}
    open(report + "/report.json", "w").write(json.dumps(held))
else:
    assert os.environ["DLC_COMPILER"] == "off"
"""


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """The benchmark's command line, with trainings that compute nothing."""
    for name, text in (("torch.py", ""), ("transformers.py", ""), ("pytorch_training.py", STAND_IN)):
        (folder / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(module("compiling.runs"), "SCRIPTS", folder)
    monkeypatch.setattr(sys, "argv", ["compiler.py", "--torch-python", sys.executable, "--no-off", *arguments])


def test_without_time_each_model_is_trained_once_of_each_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(tmp_path, monkeypatch, "--models", "bert,gpt", "--minutes", "0", "--json", str(tmp_path / "out.json"))
    module("compiler").main()
    written = json.loads((tmp_path / "out.json").read_text())
    kinds = ["eager", "rounded", "cold", "warm"]
    assert [(run["case"][-4:].strip(), run["kind"]) for run in written["trainings"]] == [
        *(("bert", kind) for kind in kinds), *(("gpt", kind) for kind in kinds)
    ]  # fmt: skip
    assert "| 0.200 | at most 0.20: met | 1 |" in capsys.readouterr().out


def test_a_run_compares_eager_cold_and_warm_and_tells_of_a_model_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--json", str(tmp_path / "out.json"), "--svg", str(tmp_path / "out.svg")]
    stand_in(tmp_path, monkeypatch, "--models", "bert,vit", "--runs", "2", *files)
    with pytest.raises(SystemExit) as end:
        module("compiler").main()
    assert end.value.code == 1  # one failed
    table = capsys.readouterr().out
    assert "| pytorch inductor bert | 200.0 | 100.0 | 2.00 (2.00 to 2.00) | 1.90 | 10.0 | 2.0 | 20 |" in table
    assert "| 0.0e+00 (at most 0.001) | 2 | inductor |" in table
    assert "| pytorch inductor vit | failed: pytorch inductor vit, cold: exit code 1 |" in table
    assert "| 0.200 | at most 0.20: met | 2 |" in table
    written = json.loads((tmp_path / "out.json").read_text())
    assert [run["kind"] for run in written["trainings"]] == ["eager", "eager", "rounded", "cold", "warm", "warm"]
    assert written["software"] == "stand-in 1.0"
    assert "10.0 s, empty cache" in (tmp_path / "out.svg").read_text()


def test_losses_that_differ_from_the_eager_ones_are_told_and_fail_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(tmp_path, monkeypatch, "--models", "resnet", "--runs", "1")
    monkeypatch.setitem(module("compiling.losses").TOLERANCES, "fp32", 1e-4)
    with pytest.raises(SystemExit) as end:
        module("compiler").main()
    assert end.value.code == 1
    told = "| DIFFER from step 12 on: 1.2e-03, expected at most 0.0001, or 4 times what rounding alone makes, 2.5e-04 |"
    assert told in capsys.readouterr().out


def test_with_dropout_no_losses_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(tmp_path, monkeypatch, "--models", "resnet", "--runs", "1", "--dropout", "--json", str(tmp_path / "out"))
    module("compiler").main()
    assert "rounded" not in (tmp_path / "out").read_text()
    assert "| not compared | 1 | inductor |" in capsys.readouterr().out


def test_compile_seconds_stand_beside_those_of_the_whole_model_and_the_goal() -> None:
    seconds = module("compile_seconds")
    whole = seconds.Row("pytorch", "gpt", "default", 30.0, 3.0, "")
    chosen = seconds.Row("pytorch", "gpt", "auto", 12.0, 3.6, "regional")
    in_blocks = seconds.Row("pytorch", "gpt", "regional", 15.3, 1.0, "", in_blocks=True)
    of_another = seconds.Row("tensorflow", "vit", "default", 10.0, 3.1, "")
    assert seconds.table([whole, in_blocks, of_another, chosen]).splitlines()[2:] == [
        "| pytorch gpt | default | 30.0 | 100% | 3.0 | 10% | at most 20%: met |",
        "| pytorch gpt | regional | 15.3 | 51%, at most 50%: missed | 1.0 | 7% | at most 20%: met |",
        "| tensorflow vit | default | 10.0 | 100% | 3.1 | 31% | at most 30%: missed |",
        "| pytorch gpt | auto (chose regional) | 12.0 | 40% | 3.6 | 30% | at most 20%: missed |",
    ]
