"""Data hosts that are slow: workers have the time to tell where they are, control processes to start and to end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dlc_runtime.dataservice.server import control, serve
from dlc_runtime.dataservice.wire import control as wire

WORKERS = 8
LATE = 1.0  # seconds that each takes to write its stacks


class Told:
    """A worker as the board has it: at work for a minute."""

    def __init__(self, slot: int) -> None:
        self.slot = slot

    def _asdict(self) -> dict[str, Any]:
        return {"pid": 1000 + self.slot, "since": time.monotonic() - 60.0}


@pytest.fixture
def files() -> Iterator[list[int]]:
    opened = [os.memfd_create(f"stacks of {slot}") for slot in range(WORKERS)]
    yield opened
    for fd in opened:
        os.close(fd)


def test_all_workers_have_the_time_that_one_of_them_needs(files: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    writing: list[threading.Timer] = []

    def asked(pid: int, _signum: int) -> None:
        slot = pid - 1000
        if slot == 0:
            raise ProcessLookupError
        writing.append(threading.Timer(LATE, os.write, (files[slot], f"stack of {slot}".encode())))
        writing[-1].start()

    monkeypatch.setattr(os, "kill", asked)
    board = SimpleNamespace(slots=WORKERS, read=Told)
    found = control.Control(b"token", {}, cast(Any, board), files, lambda: None)
    began = time.monotonic()
    workers = found.status({"stacks_after": 30.0})["workers"]
    assert time.monotonic() - began < WORKERS * LATE
    assert [worker.get("stack") for worker in workers] == [None, *(f"stack of {slot}" for slot in range(1, WORKERS))]
    for timer in writing:
        timer.join()


class Pipe:
    """To a control process that says after so many looks that it listens."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def poll(self, _seconds: float) -> bool:
        self.looks -= 1
        return self.looks < 0

    def recv(self) -> None:
        """Nothing hinders it."""


@pytest.mark.parametrize(("looks", "listens"), [(3, True), (1000, False)])
def test_a_control_process_that_imports_its_libraries_for_minutes_is_waited_for(
    looks: int, listens: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve.Server.__new__(serve.Server)
    assert (server._unable(None, Pipe(looks)) is None) == listens
    assert caplog.messages[:3] == ["data service: no control process yet"] * 3


def test_a_data_host_that_does_not_answer_at_once_is_told_to_end_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wire, "PAUSE", 0.01)
    monkeypatch.setattr(wire, "STOPPED_WITHIN", 0.5)
    asked: list[str] = []

    def call(target: str, _token: bytes, method: str) -> None:
        asked.append(target)
        if target == "ended:1":
            raise wire.CallError(f"{target}: unavailable, failed to connect: Connection refused")
        if target == "silent:1" or asked.count(target) < 3:
            raise wire.CallError(f"{target}: deadline exceeded, ")
        assert method == wire.STOP

    monkeypatch.setattr(wire, "call", call)
    wire.stop_all({"slow": "slow:1", "ended": "ended:1"}, b"token")
    assert sorted(asked) == ["ended:1", *["slow:1"] * 3]
    assert caplog.messages == []
    wire.stop_all({"silent": "silent:1"}, b"token")
    assert caplog.messages == ["data service: silent did not answer and may go on"]
