"""Strangers (tests/attacks/stranger.py) at every port of the data service: no sample is lost, logs stay readable."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from relay import Relay
from service_runs import Rank, Service, listening, wait_for

from harness.ports import free_port

STRANGER = Path(__file__).parents[2] / "attacks/stranger.py"
ATTACKS = ("garbage", "false proofs", "a flood", "slow bytes", "resets", "half calls", "replay", "reflection")
TRIES = 50
SAMPLES = 200
# A training rank that leaves behind what it sends to each port of a worker; gRPC's sockets are not Python's.
RECORDING = """
import runpy, socket, sys
class Recorded(socket.socket):
    def send(self, data, *flags):
        sent = super().send(data, *flags)
        with open(f'{sys.argv[1]}.{self.getpeername()[1]}', 'ab') as file: file.write(bytes(data[:sent]))
        return sent
socket.socket = Recorded
runpy.run_path('take_samples.py', run_name='__main__')
"""


def recorded_rank(service: Service, ports: list[int], **told: object) -> Rank:
    """A training rank; what it sends to a port is in the file `recorded.PORT`."""
    options = json.dumps({"servers": [f"127.0.0.1:{port}" for port in ports], "rank": 0, "world": 1, **told})
    out = service.folder / "recorded"
    rank = Rank([service.python, "-c", RECORDING, str(out), options], service.folder / "log", service.environ, out)
    service.hosts.append(rank)
    return rank


def recorded(service: Service, port: int) -> dict[int, Path]:
    """What a rank of the job has said to each port of the data host."""
    with Relay(port) as relay:
        assert sorted(recorded_rank(service, [relay.port]).finish().samples) == list(range(SAMPLES))
    (service.folder / f"recorded.{port}").write_bytes(relay.sent)
    return {int(path.suffix[1:]): path for path in service.folder.glob("recorded.*")}


@contextmanager
def attacked(attack: str, address: str, port: int, said: Path | None) -> Iterator[None]:
    """While somebody who does not hold the token goes on trying; from its TRIES-th try on."""
    command = [
        sys.executable,
        "-I",
        str(STRANGER),
        attack,
        address,
        str(port),
        "algo-2",
        *([str(said)] if said else []),
    ]
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
    said = recorded(service, port) if attack == "replay" else {}
    assert attack != "replay" or len(said) > 1
    with ExitStack() as stack:
        for address, number in ports:
            stack.enter_context(
                attacked(attack, address if address.startswith("127.") else "127.0.0.1", number, said.get(number))
            )
        taken = service.take([port]).finish()
    assert sorted(taken.samples) == list(range(SAMPLES))
    assert "Traceback" not in host.log


@pytest.mark.parametrize("attack", ATTACKS)
def test_each_sample_goes_to_one_rank_while_strangers_are_where_leases_are_kept(service: Service, attack: str) -> None:
    """That is on a training host. They come while two ranks take, and stay until both are done."""
    _, port = service.serve("Numbers", SAMPLES, batch_size=4)
    lease = free_port()
    told = {"order": "first_come", "leases": f"127.0.0.1:{lease}", "world": 2, "step": 0.2}
    ranks = [service.take([port], rank=0, **told), recorded_rank(service, [port], **{**told, "rank": 1})]
    said = service.folder / f"recorded.{lease}"
    wait_for(said.exists, lambda: ranks[1].log)
    with attacked(attack, "127.0.0.1", lease, said):
        assert ranks[0].process.poll() is None, "it was over before they came"
        samples = [sample for rank in ranks for sample in rank.finish().samples]
    assert sorted(samples) == list(range(SAMPLES))
    assert not any("Traceback" in rank.log for rank in ranks)
