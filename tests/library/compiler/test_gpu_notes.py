"""The report's notes of a GPU: memory, how busy it was, and TF32."""

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
