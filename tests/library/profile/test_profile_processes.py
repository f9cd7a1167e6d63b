"""dlc_runtime.profile of programs without a framework: memory, CPU seconds, GPUs, and a loop over any iterable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dlc_runtime.profile import resources
from dlc_runtime.profile.resources import Gpus

BOUND = 60.0  # seconds; only a bound
SOURCES = Path(__file__).parents[3] / "src"
BIG = 200 << 20
PROGRAM = f"""
import json, os, sys
from dlc_runtime.profile.resources import Framework, Memory, host_peak
memory = Memory(Framework())
first = host_peak()
held = bytearray(b"x" * {BIG // 2})
held = None
before = memory.as_json()["host"]
memory.mark()
after = memory.as_json()["host"]
reading, writing = os.pipe()
ready, say = os.pipe()
if os.fork() == 0:
    held = bytearray(b"x" * {BIG})
    os.write(say, b"x")
    os.close(writing)
    os.read(reading, 1)
    os._exit(0)
os.read(ready, 1)
child = memory.as_json()["host"]
os.write(writing, b"x")
print(json.dumps([first, before, after, child]))
"""


def test_the_peak_is_kept_and_can_be_looked_for_again_and_children_count() -> None:
    environ = {**os.environ, "PYTHONPATH": str(SOURCES)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, timeout=BOUND, check=True
    )
    first, before, after, child = json.loads(done.stdout)
    assert before["peak"] >= first + BIG // 2
    assert after["peak"] >= before["peak"]
    assert after["steady"] < before["steady"] - BIG // 4  # what was freed before is not in it
    assert child["steady"] >= after["steady"] + BIG * 0.9


def test_cpu_seconds_of_a_tree_hold_children_that_run_and_that_ended() -> None:
    spin = "import time\nwhile time.process_time() < 0.4: pass\n"
    wait = "import sys; print(flush=True); sys.stdin.read()"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {spin!r}]); {wait}"
    before = resources.tree_seconds(os.getpid())
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert resources.tree_seconds(child.pid) >= 0.3
        assert resources.tree_seconds(os.getpid()) - before >= 0.3
        assert child.stdin is not None
        child.stdin.close()


def test_gpu_use_is_the_mean_of_what_nvidia_smi_prints_and_it_ends_with_the_measuring(tmp_path: Path) -> None:
    """The program stands for nvidia-smi: it prints two samples of two GPUs, one of which says nothing, and stays."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\nprintf '0, 40, 100, H200\\n1, [N/A], 0, H200\\n0, 80, 300, H200\\n'\nexec sleep 600\n")
    smi.chmod(0o755)
    gpus = Gpus((str(smi),))
    end = time.monotonic() + BOUND
    expected = {"use": 0.6, "gpus": [{"index": "0", "name": "H200", "use": 0.6, "memory_mib": 300.0}]}
    while gpus.as_json() != expected and time.monotonic() < end:
        pass
    assert gpus.as_json() == expected
    gpus.end()
    assert gpus._child is not None
    assert gpus._child.returncode is not None


MESSAGES = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
    "No devices were found",
    "Unable to determine the device handle for GPU 0000:65:00.0: Unknown Error",
)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_of_nvidia_smi_is_no_sample_and_ends_nothing(tmp_path: Path, message: str) -> None:
    """It prints them where it prints samples; a GPU that shares the host's memory does not tell its own."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\ncat <<'END'\n{message}\n1, 50, [N/A], NVIDIA GB10\nEND\n")
    smi.chmod(0o755)
    gpus = Gpus((str(smi),))
    gpus._reader.join(BOUND)
    gpus.end()
    expected = {"use": 0.5, "gpus": [{"index": "1", "name": "NVIDIA GB10", "use": 0.5, "memory_mib": 0.0}]}
    assert gpus.as_json() == expected


def test_without_nvidia_smi_nothing_is_known_of_gpus() -> None:
    gpus = Gpus(("/nowhere/nvidia-smi",))
    gpus.end()
    assert gpus.as_json() is None


def test_a_loop_over_any_iterable_can_be_measured(tmp_path: Path) -> None:
    program = (
        "import time\nfrom dlc_runtime.profile import watch\n"
        "def batches():\n"
        "    for number in range(30):\n"
        "        end = time.process_time() + 0.005\n"
        "        while time.process_time() < end: pass\n"
        "        yield number\n"
        "print(sum(watch(batches())))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=BOUND, check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCES), "DLC_PROFILE_REPORT": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "435\n"), done.stderr
    text = (tmp_path / "rank-0.json").read_text()
    assert '"batches": 30' in text
    assert '"steps": 27' in text


@pytest.mark.parametrize("how", ["sys.stderr.close()", "sys.stderr = None"])
def test_a_script_without_a_standard_error_goes_on_and_has_its_report(tmp_path: Path, how: str) -> None:
    program = f"import sys\nfrom dlc_runtime.profile import watch\n{how}\nprint(sum(watch(range(250))))\n"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=BOUND, check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCES), "DLC_PROFILE_REPORT": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"{sum(range(250))}\n")
    assert '"steps": 200' in (tmp_path / "rank-0.json").read_text()
