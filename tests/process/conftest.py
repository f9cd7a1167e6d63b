"""Tests that start programs and servers on this host: they need no Docker engine and no image."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness.examples  # noqa: F401 (its profile is for all property tests)
from launch import signals

CATCHABLE = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}


@pytest.fixture(autouse=True)
def signals_as_pytest_has_them() -> Iterator[None]:
    """A test may let the launcher or dlc handle signals in this process; the next test finds them as they were."""
    handlers = {number: signal.getsignal(number) for number in CATCHABLE}
    descriptor = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(descriptor)
    yield
    for number, handler in handlers.items():
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)
    signal.set_wakeup_fd(descriptor)
    for reading in signals._wakeup:
        os.close(reading)
    for remembered in (signals._wakeup, signals._received, signals._relayed, signals._raising):
        remembered.clear()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("mounting a file system of 64 KiB needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)
