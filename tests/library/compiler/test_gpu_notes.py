"""What the report says of a GPU: memory of the job and of each way, how busy it was, and TF32."""

from __future__ import annotations

from torch_runs import Runner


def test_memory_use_and_tf32_are_noted(runner: Runner) -> None:
    found = runner.run("gpu_facts.py", compiler="").results[0]
    memory = "NVIDIA H200: tensors took at most 13.6 of 150 GB"
    assert found["before"] == 0
    assert found["asked"] == 2  # at most once a second
    assert found["busy"] == [f"{memory}; busy 90% of the time (2 samples)"]
    assert found["off"][0] == memory  # a driver that does not know this GPU
    assert "DLC_COMPILER_TF32=1 lets it (what it would win was not measured)" in found["off"][1]
    assert found["without"] == found["autocast"] == [memory]
    assert "are multiplied in TF32" in found["on"][1]
    assert found["seen"]


def test_what_tf32_would_win_is_measured_once_and_leaves_no_trace(runner: Runner) -> None:
    found = runner.run("gpu_facts.py", compiler="").results[0]
    won = "lets it (eager, forward and backward of the first batch: 1.50 to 1.50 times as fast)"
    assert found["measured"][1].endswith(won)
    assert found["few"] == "about 1.50 times as fast (2 pairs)"
    assert found["slow"] == found["raises"] == ""  # longer than a second
    assert found["trace"] == ["highest", True, 0, [None] * 4]


def test_each_way_has_its_peak_memory_and_one_that_needs_too_much_is_left(runner: Runner) -> None:
    found = runner.run("gpu_memory.py", compiler="").results[0]
    roomy = found["roomy"]
    assert roomy["memory"] == {"eager": 40, "inductor": 60, "cuda-graphs": 95}  # not while they compile
    assert roomy["outcome"]["cuda-graphs"] == "left: it needs 95.0 of 100.0 GiB of the GPU's memory"
    assert roomy["outcome"]["inductor"] == "taken"
    assert ", compiling 1.0 s, 60.0 GiB: taken" in roomy["log"][0]
    assert found["tight"]["outcome"]["cuda-graphs"] == "taken"  # eager needs as much


def test_a_script_sees_the_peak_since_its_own_reset(runner: Runner) -> None:
    assert runner.run("gpu_memory.py", compiler="").results[0]["seen"] == [97, 10]
