"""DLC_DATA_TLS=1: everything between the hosts is encrypted, and who does not hold the token gets nothing."""

from __future__ import annotations

import contextlib
import socket
from itertools import chain

import pytest
from service_runs import HANGS, Rank, Service, listening, python_with

from dlc_runtime.dataservice.schedule.assignment import Epoch, Sampling
from harness.ports import free_port


@pytest.fixture
def secured(service: Service) -> Service:
    if python_with("cryptography") is None:
        pytest.skip("the Python that runs the scripts has no cryptography; DLC_TEST_TORCH_PYTHON names another")
    service.environ["DLC_DATA_TLS"] = "1"
    return service


def test_batches_of_every_size_arrive_whole_and_in_order(secured: Service) -> None:
    ports = [secured.serve("Numbers", 2000, batch_size=10, shuffle=True)[1] for _ in range(2)]
    ranks = [secured.take(ports, rank=rank, world=2) for rank in range(2)]
    plan = Epoch(Sampling(2000, 10, shuffle=True), 0)
    for rank in range(2):
        assert ranks[rank].finish().batches == [plan.indices(id_) for id_ in range(rank, 200, 2)]
    _, port = secured.serve("Large", 24, batch_size=5)
    sizes = [[1_000_000] * 5] * 4 + [[1_000_000] * 4]
    assert secured.take([port]).finish().batches == sizes


def test_leases_of_the_first_comer_are_encrypted_too_and_each_sample_goes_once(secured: Service) -> None:
    _, port = secured.serve("Delayed", 400, batch_size=4)
    lease = f"127.0.0.1:{free_port()}"
    options = {"order": "first_come", "leases": lease, "world": 2}
    ranks = [secured.take([port], rank=rank, **options) for rank in range(2)]
    samples = chain(*(rank.finish().samples for rank in ranks))
    assert sorted(samples) == list(range(400))


def test_a_port_says_nothing_to_who_speaks_no_tls(secured: Service) -> None:
    _, port = secured.serve("Numbers", 20, workers=1)
    assert secured.take([port]).finish().samples == list(range(20))  # it serves
    found = {number: said_to_plain_text(number) for _, number in listening(secured.hosts[0].children())}
    assert len(found) == 2
    for said in found.values():
        assert b"dlc" not in said


def said_to_plain_text(port: int) -> bytes:
    """All that a stranger gets; without TLS a worker greets at once."""
    said = b""
    with socket.create_connection(("127.0.0.1", port), timeout=HANGS) as sock, contextlib.suppress(ConnectionError):
        sock.sendall(b"dlc-data-1\r\n" + b"x" * 64)
        while data := sock.recv(1000):
            said += data
    return said


@pytest.mark.parametrize(("token", "switch"), [("of another job", "1"), (None, "0")])
def test_a_rank_of_another_job_or_without_tls_gets_nothing(secured: Service, token: str | None, switch: str) -> None:
    _, port = secured.serve("Numbers", 20)
    assert secured.take([port]).finish().samples == list(range(20))  # it serves
    secured.environ["DLC_DATA_TLS"] = switch
    stranger: Rank = secured.take([port], patience=1.5, **({"environ_token": token} if token else {}))
    assert stranger.wait() != 0
    assert stranger.count == 0
    assert "ServersLostError" in stranger.log
