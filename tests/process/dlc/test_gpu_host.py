"""benchmarks/gpu_host.py: which rows run, what ends them, what the report says; its rows here compute nothing."""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.installed import TOOLS

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
HANGS = 120.0  # seconds; only a bound


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def module(name: str) -> Any:
    return importlib.import_module(name)


def facts(**more: object) -> dict[str, object]:
    packages = dict.fromkeys(("torch", "transformers", "accelerate", "pytest", "grpc", "grpc_health"), "1.0")
    found: dict[str, object] = {
        "packages": packages, "host_python": "/usr/bin/python3", "date": "2026-11-27 08:00", "cores": 16,
        "python": "3.12.1", "card": "NVIDIA H200, 580.1, 143771 MiB", "gpu": "NVIDIA H200", "notes": [],
    }  # fmt: skip
    return found | more


def planned(rehearse: bool = False, **more: object) -> list[Any]:
    host = module("gpu_rows.host").Host(Path("python"), Path("folder"), rehearse, facts(**more))
    return list(module("gpu_rows.plan").plan(host, 8.0, {}))


def row(measure: Any, needs: float = 0.0, bound: float = 10.0) -> Any:
    return module("gpu_rows.rows").Row("a row", needs, bound, measure)


def result(name: str, figures: Mapping[str, object], state: str = "measured", why: str = "") -> Any:
    return module("gpu_rows.rows").Result(name, state, 12.0, why, figures)


# -- which rows run -------------------------------------------------------------------------------------------------


def test_every_model_has_its_first_row_before_any_model_has_another_variant() -> None:
    names = [each.name for each in planned()]
    last_choice = max(place for place, name in enumerate(names) if name.endswith("bf16 auto"))
    first_variant = min(place for place, name in enumerate(names) if name.endswith("bf16 CUDA graphs"))
    first_of_fp32 = min(place for place, name in enumerate(names) if "fp32" in name)
    assert last_choice < names.index("trainer on") < first_variant < first_of_fp32
    assert len(names) == len(set(names))


def test_a_rehearsal_has_a_row_of_each_kind() -> None:
    assert [each.name for each in planned(rehearse=True)] == [
        "model bf16: compiling ahead", "model bert bf16 auto", "model bert bf16 eager", "trainer on", "trainer off",
        "feed local", "feed remote", "suite", "profile",
        "model bert bf16 rounded", "model bert bf16 inductor",
    ]  # fmt: skip


def test_a_row_whose_packages_the_host_lacks_is_left_out_with_the_remedy() -> None:
    rows = planned(packages={"torch": "2.11.0", "pytest": "9.2.0"})
    lacks = {each.name: each.lacks for each in rows if each.lacks}
    assert lacks["trainer on"] == "/usr/bin/python3 has no transformers, accelerate; carry it along (--carry)"
    assert "feed remote" in lacks
    assert not {"suite", "feed local"} & lacks.keys()


def test_a_row_that_does_not_fit_into_the_time_is_left_out_and_not_begun() -> None:
    def measure(bound: float) -> None:
        raise AssertionError("it was begun")

    found = module("gpu_rows.rows").result_of(row(measure, needs=40), left=12.0)
    assert (found.state, found.why) == ("left out", "needs 40 s, 12 s were left")


def test_a_row_is_bounded_by_what_is_left() -> None:
    found = module("gpu_rows.rows").result_of(row(lambda bound: {"bound": bound}, bound=300), left=12.0)
    assert found.figures == {"bound": 12.0}


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_figure_that_is_no_number_fails_its_row(number: float) -> None:
    found = module("gpu_rows.rows").result_of(row(lambda bound: {"losses": [1.0, number]}), left=60)
    assert (found.state, found.why) == ("failed", f"losses 2 is {number}, expected a finite number")


def test_a_process_that_wrote_no_result_fails_its_row_with_the_reason(tmp_path: Path) -> None:
    measures = module("gpu_rows.measures")
    found = module("gpu_rows.rows").result_of(row(lambda bound: measures.read(tmp_path / "out.json")), left=60)
    assert found.state == "failed"
    assert found.why.startswith("FileNotFoundError: ")


def test_eager_steps_reach_beyond_the_runtimes_choice() -> None:
    steps = module("gpu_rows.measures").steps_to_compare
    assert steps({"auto": result("auto", {"steps": 500, "choosing": {"from_step": 120}})}, "auto", 80) == 140
    assert steps({"auto": result("auto", {"steps": 500, "choosing": {"from_step": None}})}, "auto", 80) == 500
    assert steps({"auto": result("auto", {}, "failed", "no memory")}, "auto", 80) == 80


# -- processes ------------------------------------------------------------------------------------------------------

RUN = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from gpu_rows.processes import Command, RowError, adopt_orphans, descendants, run
adopt_orphans()
try:
    run([Command("a row", [sys.executable, sys.argv[2]], dict(os.environ), Path(sys.argv[3]))], float(sys.argv[4]))
except RowError as fault:
    print(fault)
print("left", descendants(os.getpid()))
"""
# Its child leaves the session and its parent, as a daemon does.
ROW = """
import os, subprocess, sys, time
if sys.argv[1:]:
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    print(os.getpid(), flush=True)
    time.sleep(600)
child = subprocess.Popen([sys.executable, __file__, "daemon"], stdout=subprocess.PIPE, text=True)
print(child.stdout.readline(), end="", flush=True)
"""


@pytest.mark.parametrize(
    ("then", "bound", "said"),
    [("time.sleep(600)", "5", "a row: not done after 5 s"), ("sys.exit(3)", "60", "a row: exit code 3")],
)
def test_a_row_ends_with_all_that_it_started_a_daemon_too(tmp_path: Path, then: str, bound: str, said: str) -> None:
    (tmp_path / "row.py").write_text(f"{ROW}{then}\n")
    argv = [sys.executable, "-c", RUN, str(BENCHMARKS), str(tmp_path / "row.py"), str(tmp_path / "log"), bound]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=HANGS, check=True)
    lines = done.stdout.splitlines()
    daemon = int((tmp_path / "log").read_text())
    assert lines == [said, str(daemon), "left []"]
    assert not Path(f"/proc/{daemon}").exists()


# -- the host -------------------------------------------------------------------------------------------------------


def test_carried_packages_are_used_only_where_the_host_has_none(tmp_path: Path) -> None:
    for name, version in (("dlc_carried", "3.0"), ("pytest", "0.1")):
        with zipfile.ZipFile(tmp_path / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/__init__.py", f"version = {version!r}")
            wheel.writestr(f"{name}-{version}.dist-info/METADATA", f"Name: {name}\nVersion: {version}\n")
    python = module("compiling.runs").pythons(str(TOOLS / "python"), tmp_path / "python").with_line
    module("gpu_rows.host").unpack(tmp_path, python)
    ask = "import dlc_carried, pytest; print(dlc_carried.version, getattr(pytest, 'version', 'of the host'))"
    assert subprocess.check_output([str(python), "-c", ask], text=True) == "3.0 of the host\n"


def test_wheels_of_another_python_are_refused_before_any_row(tmp_path: Path) -> None:
    host = module("gpu_rows.host")
    for tags in ("cp39-abi3-manylinux_2_28_x86_64", "py2.py3-none-any", "cp31-cp31-manylinux_2_28_x86_64"):
        (tmp_path / f"dlc_{tags[:4]}-1.0-{tags}.whl").touch()
    with pytest.raises(ValueError, match=r"dlc_cp31-1\.0-cp31-cp31-manylinux_2_28_x86_64\.whl: not for cp3"):
        host.unpack(tmp_path, Path(sys.executable))


def test_the_report_notes_what_nothing_can_be_compiled_without(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = module("gpu_rows.host").compiling_notes
    monkeypatch.setenv("CC", sys.executable)
    assert notes(True) == []
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "/nowhere")
    assert [note.partition(",")[0] for note in notes(False)] == ["no C compiler", "no Python.h"]


@pytest.mark.parametrize(("listed", "first"), [(None, "0"), ("3,1", "3"), ("", "")])
def test_a_row_sees_one_gpu_and_the_suite_sees_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: str | None, first: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if listed is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    environment = module("gpu_rows.measures").environment
    assert environment(tmp_path, {})["CUDA_VISIBLE_DEVICES"] == first
    assert environment(tmp_path, {}, every_gpu=True).get("CUDA_VISIBLE_DEVICES") == listed


def command(*arguments: str, packages: str = "") -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(BENCHMARKS / "gpu_host.py"), *arguments]
    environ = {**os.environ, "PYTHONPATH": packages}
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=HANGS, env=environ)


def test_a_python_without_torch_is_refused() -> None:
    done = command()
    assert done.returncode == 2
    assert done.stderr.startswith(f"gpu_host.py: {sys.executable} cannot import torch: ModuleNotFoundError")


def test_a_folder_without_wheels_is_refused(tmp_path: Path) -> None:
    done = command("--carried", str(tmp_path))
    assert done.returncode == 2
    assert f"{tmp_path}: expected wheels (*.whl), found none; make the folder with --carry" in done.stderr


def test_a_version_of_a_package_that_is_not_carried_is_refused(tmp_path: Path) -> None:
    done = command("--carry", str(tmp_path), "--with", "numpy==2.0")
    assert done.returncode == 2
    assert "--with numpy: expected NAME==VERSION of transformers, pytest, accelerate" in done.stderr


# -- the report -----------------------------------------------------------------------------------------------------


def trainings() -> list[Any]:
    """Of one model: eager, as the runtime chose, and with CUDA graphs whose losses differ."""
    base = {"model": "bert", "dtype": "bf16", "steps": 4, "peak_gb": 8.0, "losses": [2.0, 1.0]}
    ways = [
        {"way": "eager", "steps": 40, "seconds": 0.05, "compile_seconds": 0.0, "memory_bytes": 8e9, "against": "",
         "verdict": "", "outcome": "left"},
        {"way": "inductor", "steps": 44, "seconds": 0.04, "compile_seconds": 30.0, "memory_bytes": 0,
         "against": "eager", "verdict": "1.22 to 1.27 times as fast", "outcome": "taken"},
    ]  # fmt: skip
    chosen = {"from_step": 90, "words": "inductor from step 90 on", "spent_seconds": 33.0, "candidates": ways}
    auto = base | {"way": "auto", "ms": 40.0, "compile_seconds": 31.0, "losses": [2.0, 1.002], "choosing": chosen}
    graphs = base | {"way": "CUDA graphs", "ms": 25.0, "compile_seconds": 20.0, "losses": [2.0, 1.5, 9.0]}
    return [
        result("auto", auto), result("eager", base | {"way": "eager", "ms": 50.0}), result("graphs", graphs),
    ]  # fmt: skip


def test_the_page_compares_times_and_losses_with_eagers_and_has_the_candidates() -> None:
    page = module("gpu_rows.table").page(facts(), trainings(), "1234567")
    assert page.startswith("2026-11-27 08:00, commit 1234567: NVIDIA H200, 580.1, 143771 MiB; 16 cores, Python 3.12.1")
    assert "| bert | bf16 | auto | 40.0 | 1.25 | 31.0 | 8.0 | 1.0e-03 (at most 0.02), 2 compared |" in page
    assert "| bert | bf16 | eager | 50.0 |  |  | 8.0 |  |" in page
    assert "| bert | bf16 | CUDA graphs | 25.0 | 2.00 | 20.0 | 8.0 | DIFFER from step 2 on: 2.5e-01, expected" in page
    assert "bf16, auto: 1.25 times as fast as eager, geometric mean of 1 models; lowest 1.25." in page
    assert "| bert bf16 | inductor | 44 | 40.0 | 1.22 to 1.27 times as fast as eager | 30.0 |  | taken |" in page
    assert "bert bf16: inductor from step 90 on; choosing took 33 s." in page
    assert [line for line in page.splitlines() if ", goal " in line] == [
        "bf16, geometric mean of the models: 1.25, goal at least 1.6: missed.",
        "the model that wins least: 1.25, goal at least 1: met.",
        "seconds of choosing beside compiling: 2.00, goal at most 60: met.",
        "peak memory, times eager's: 1.00, goal at most 1: met.",
        "trainings whose losses differ: 0.00, goal at most 0: met.",
    ]


def test_the_page_has_the_goals_of_the_trainer_and_of_memory_that_were_missed() -> None:
    auto, eager, _ = trainings()
    for each in (auto, eager):
        del each.figures["model"]
    auto.figures.update(ms=51.0, peak_gb=9.0, losses=[2.0, 1.5])
    page = module("gpu_rows.table").page(facts(), [auto, eager], "1234567")
    assert "the Trainer's job: 0.98, goal at least 1: missed." in page
    assert "peak memory, times eager's: 1.12, goal at most 1: missed." in page
    assert "trainings whose losses differ: 1.00, goal at most 0: missed." in page
    assert "geometric mean" not in page


def test_losses_that_differ_no_more_than_rounding_makes_them_are_the_same_on_the_page() -> None:
    auto, eager, graphs = trainings()
    rounded = result("rounded", eager.figures | {"way": "rounded", "losses": [2.0, 1.15]})
    page = module("gpu_rows.table").page(facts(), [auto, eager, graphs, rounded], "1234567")
    assert "2.5e-01 (at most 0.02, or 4 times what rounding alone makes, 7.5e-02), 2 compared |" in page
    assert "rounded" not in page


def test_a_training_that_ended_while_it_compiled_or_measured_has_no_speed() -> None:
    auto, eager, graphs = trainings()
    auto.figures["choosing"]["from_step"] = None
    graphs.figures["compiled_steps"] = 0
    page = module("gpu_rows.table").page(facts(), [auto, eager, graphs], "1234567")
    assert "| bert | bf16 | auto | 40.0 | ended too early | 31.0 |" in page
    assert "| bert | bf16 | CUDA graphs | 25.0 | ended too early | 20.0 |" in page
    assert "geometric mean" not in page


def test_the_page_says_what_failed_and_what_was_left_out() -> None:
    rows = [
        result("suite", {"passed": 16, "skipped": 2, "reasons": ["one GPU only"]}),
        result("trainer on", {}, "failed", "trainer-on: exit code 1\nno | memory"),
        result("profile", {}, "left out", "needs 25 s, 3 s were left"),
    ]
    page = module("gpu_rows.table").page(facts(), rows, "1234567")
    assert "suite (12 s): passed: 16; skipped: 2; reasons: one GPU only." in page
    assert "| trainer on | failed | trainer-on: exit code 1 no / memory |" in page
    assert "| profile | left out | needs 25 s, 3 s were left |" in page


def test_the_file_holds_the_rows_so_far_after_each_row(tmp_path: Path) -> None:
    report = module("gpu_host").Report(facts(), tmp_path / "out.json")
    for count, each in enumerate(trainings(), start=1):
        report.add(each)
        written = json.loads((tmp_path / "out.json").read_text())
        assert [one["name"] for one in written["rows"]] == ["auto", "eager", "graphs"][:count]
    assert [one["times"] for one in written["compared"]] == [1.25, None, 2.0]
    assert [one["same"] for one in written["compared"]] == [True, True, False]
    assert written["compared"][2]["loss_difference"] == {"largest": 0.25, "rounding": 0.0, "steps": 2, "wrong_step": 2}
    assert report.is_bad()  # losses differ
    assert [file.name for file in tmp_path.iterdir()] == ["out.json"]


# -- verdicts -------------------------------------------------------------------------------------------------------


def said(number: int, low: float | None, high: float | None) -> Any:
    return module("compiler_verdicts").Said("tiny", number, "inductor", low, high, f"{low} to {high}")


def test_verdicts_may_differ_in_what_they_are_not_sure_of() -> None:
    assert module("compiler_verdicts").changes([said(1, 1.1, 1.3), said(2, 0.9, 1.1), said(3, None, None)]) == []


def test_two_runs_that_are_sure_of_different_signs_are_named() -> None:
    [line] = module("compiler_verdicts").changes([said(1, 1.1, 1.3), said(2, 0.9, 1.1), said(3, 0.5, 0.8)])
    assert line == (
        "tiny, inductor: run 1 is sure that it is faster (1.1 to 1.3), run 3 that it is slower (0.5 to 0.8)"
    )


def test_runs_that_compared_nothing_or_too_few_steps_prove_nothing() -> None:
    verdicts = module("compiler_verdicts")
    silent = "no run could tell how fast a candidate is: give --seconds more"
    assert verdicts.silent([said(1, 1.1, 1.3)]) == [f"mnist: {silent}"]
    too_few = [said(number, None, None) for number in (1, 2)]
    assert verdicts.silent(too_few) == [f"tiny: {silent}", f"mnist: {silent}"]
