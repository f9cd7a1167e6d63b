"""dlc_runtime.profile without a framework: the split of time, quotas of a container, settings."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dlc_runtime import host
from dlc_runtime.profile import resources
from dlc_runtime.profile.meter import Clock, Meter, batch_bytes
from dlc_runtime.profile.settings import read_settings
from dlc_runtime.profile.torch_loader import TORCH


class Time:
    """A clock that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.value = 0.0

    def __call__(self) -> float:
        return self.value


def step(meter: Meter, clock: Time, wait: float, compute: float) -> None:
    """One batch of a loop: it waits, and then computes until it asks again."""
    meter.ask()
    clock.value += wait
    meter.got(b"batch")
    clock.value += compute


def test_time_is_split_in_waiting_and_computing_and_the_first_wait_is_apart() -> None:
    clock = Time()
    meter = Meter(Clock(lambda: None, clock), skip=0)
    for wait, compute in ((5.0, 1.0), (0.5, 1.0), (0.25, 3.0)):
        step(meter, clock, wait, compute)
    meter.ask()
    assert (meter.starting, meter.waiting, meter.computing) == (5.0, 0.75, 5.0)
    assert (meter.steps, meter.step, meter.batch_bytes) == (3, 1.0, 5.0)


def test_the_accelerator_is_waited_for_before_a_step_ends() -> None:
    clock = Time()

    def settle() -> None:
        clock.value += 2.0

    meter = Meter(Clock(settle, clock), skip=0)
    step(meter, clock, 0.0, 1.0)
    meter.ask()
    assert meter.computing == 3.0


def test_a_second_loader_in_each_step_is_waiting_and_a_loop_in_a_step_is_no_step() -> None:
    clock = Time()
    shared = Clock(lambda: None, clock)
    images, noise = Meter(shared, skip=0), Meter(shared, skip=0)
    step(noise, clock, 0.0, 0.0)
    for inner in (1, 1, 10):
        step(images, clock, 0.0, 1.0)
        for _ in range(inner):
            step(noise, clock, 0.5, 0.0)
    images.ask()
    assert (images.steps, images.computing, images.waiting) == (2, 2.0, 1.0)


def test_a_step_in_which_something_was_compiled_is_left_out_and_counted_apart() -> None:
    clock, compiled = Time(), [0]
    meter = Meter(Clock(lambda: None, clock, lambda: compiled[0]), skip=0)
    step(meter, clock, 0.0, 1.0)
    step(meter, clock, 0.5, 20.0)
    compiled[0] += 3
    step(meter, clock, 0.25, 2.0)
    meter.ask()
    assert (meter.steps, meter.computing, meter.waiting) == (2, 3.0, 0.25)
    assert (meter.compiled_steps, meter.compiling) == (1, 20.0)


def test_bytes_of_a_batch_are_those_of_all_its_arrays() -> None:
    array = memoryview(bytes(100))
    assert batch_bytes({"a": array, "b": [array, (array, "text")], "c": 7}) == 304


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "25000 100000\n"}, 0.25),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "150000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1.5),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu.max": "\n"}, None),
        ({}, None),
    ],
)
def test_a_containers_quota_limits_the_cpus_that_count(
    tmp_path: Path, files: dict[str, str], expected: float | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    own = float(len(os.sched_getaffinity(0)))
    assert host.usable(str(tmp_path)) == (own if expected is None else min(expected, own))


def test_what_stood_in_line_and_what_the_host_worked_are_read_from_the_kernels_files(tmp_path: Path) -> None:
    (tmp_path / "cpu.pressure").write_text(
        "some avg10=94.18 avg60=84.22 avg300=68.47 total=539790565\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    )
    assert resources.pressure_seconds(str(tmp_path / "cpu.pressure")) == 539.790565
    assert resources.pressure_seconds(str(tmp_path / "absent")) is None
    (tmp_path / "stat").write_text("cpu  126703 839 31320 64914 2236 0 1081 845 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    assert resources.host_seconds(str(tmp_path / "stat")) == (126703 + 839 + 31320 + 1081 + 845) / resources.TICKS
    (tmp_path / "stat").write_text("nothing\n")
    assert resources.host_seconds(str(tmp_path / "stat")) is None


@pytest.mark.parametrize(
    ("container", "tree", "ranks", "expected"),
    [
        (60.0, 50.0, 1, 40.0),  # a container, and something beside it
        (60.0, 50.0, 8, 40.0),
        (99.0, 50.0, 1, 50.0),  # the container is the host: this job is its processes
        (99.0, 50.0, 8, None),  # ... and other ranks are the job too
        (None, 30.0, 1, 70.0),
        (None, 30.0, 2, None),
    ],
)
def test_what_other_programs_took_is_what_the_host_worked_without_the_job(
    container: float | None, tree: float, ranks: int, expected: float | None
) -> None:
    assert resources.seconds_of_others(100.0, container, tree, ranks) == expected
    assert resources.seconds_of_others(None, container, tree, ranks) is None


def test_cpu_seconds_of_the_container_are_read_in_both_versions_of_control_groups(tmp_path: Path) -> None:
    assert resources.container_seconds(str(tmp_path)) is None
    (tmp_path / "cpuacct").mkdir()
    (tmp_path / "cpuacct/cpuacct.usage").write_text("2500000000\n")
    assert resources.container_seconds(str(tmp_path)) == 2.5
    (tmp_path / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1000000\n")
    assert resources.container_seconds(str(tmp_path)) == 1.5


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"DLC_PROFILE": "perhaps"}, "DLC_PROFILE=perhaps: expected 1 or 0"),
        ({"DLC_PROFILE_STEPS": "0"}, "DLC_PROFILE_STEPS=0: expected a whole number from 1 on"),
        ({"DLC_PROFILE_SKIP": "-1"}, "DLC_PROFILE_SKIP=-1: expected a whole number from 0 on"),
    ],
)
def test_a_wrong_setting_is_named_with_what_was_expected(variables: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_settings(variables)


def test_settings_of_the_launchers_variables() -> None:
    found = read_settings({"DLC_PROFILE": "1", "OMPI_COMM_WORLD_RANK": "9", "OMPI_COMM_WORLD_LOCAL_RANK": "1"})
    assert (found.on, found.rank, found.local_rank) == (True, 9, 1)
    assert not read_settings({}).on


def test_the_report_stays_where_it_was_asked_for_when_the_script_changes_its_folder() -> None:
    assert read_settings({"DLC_PROFILE_REPORT": "found"}).report == str(Path.cwd() / "found")


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({}, "/opt/ml/output/data/profile"),
        ({"SAGEMAKER_BASE_DIR": "/base"}, "/base/output/data/profile"),
        (
            {"SAGEMAKER_BASE_DIR": "base", "SM_OUTPUT_DATA_DIR": "/there/base/output/data"},
            "/there/base/output/data/profile",
        ),
        ({"SAGEMAKER_BASE_DIR": "/base", "DLC_PROFILE_REPORT": "/there"}, "/there"),
    ],
)
def test_the_report_is_among_the_results_of_the_job(variables: dict[str, str], folder: str) -> None:
    assert read_settings(variables).report == folder


@pytest.mark.parametrize(
    ("path", "text", "limit"),
    [
        ("memory.max", "1048576\n", 1048576),
        ("memory.max", "max\n", None),
        ("memory/memory.limit_in_bytes", "1048576\n", 1048576),
        ("memory/memory.limit_in_bytes", "9223372036854771712\n", None),
    ],
)
def test_the_containers_limit_is_read_in_both_versions(path: str, text: str, limit: int | None, tmp_path: Path) -> None:
    file = tmp_path / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    assert resources.container_limit(str(tmp_path)) == limit
    assert resources.container_limit(str(tmp_path / "none")) is None


@pytest.mark.parametrize("compiler", ["torch._dynamo.utils", "torch._inductor.codecache"])
def test_a_step_that_imports_a_compiler_is_one_that_compiles(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, compiler, raising=False)
    before = TORCH.compilations()
    monkeypatch.setitem(sys.modules, compiler, ModuleType(compiler))
    assert TORCH.compilations() != before
