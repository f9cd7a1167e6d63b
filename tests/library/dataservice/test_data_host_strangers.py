"""Strangers at every port of a data host (tests/attacks/stranger.py): no sample is lost, and the log stays readable."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from service_runs import Service, listening, wait_for

STRANGER = Path(__file__).parents[2] / "attacks/stranger.py"
ATTACKS = ("garbage", "false MACs", "a flood", "slow bytes", "resets")
TRIES = 50
SAMPLES = 200


@contextmanager
def attacked(attack: str, address: str, port: int) -> Iterator[None]:
    """While somebody who does not hold the token goes on trying; from its TRIES-th try on."""
    command = [sys.executable, "-I", STRANGER, attack, address, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(TRIES):
            assert process.stdout.readline() == b"tried\n"
        try:
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_sample_arrives_once_while_strangers_are_at_every_port(service: Service, attack: str) -> None:
    host, port = service.serve("Numbers", SAMPLES, batch_size=4)
    wait_for(lambda: " workers" in host.log, lambda: host.log)
    ports = listening([host.process.pid, *host.children()])
    assert port in {number for _, number in ports}
    with ExitStack() as stack:
        for address, number in ports:
            stack.enter_context(attacked(attack, address if address.startswith("127.") else "127.0.0.1", number))
        taken = service.take([port]).finish()
    assert sorted(taken.samples) == list(range(SAMPLES))
    assert "Traceback" not in host.log
