"""DLC_DATA_TLS=1: everything between the hosts is encrypted, and who does not hold the job's token gets nothing."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import ssl
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from service_runs import HANGS, Host, Rank, Service, python_with

from dlc_runtime.dataservice.errors import RefusedError, SettingError
from dlc_runtime.dataservice.plan.epoch import Epoch, Sampling
from dlc_runtime.dataservice.wire import tls
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
    found = {number: said_to_plain_text(number) for number in listening_ports(secured.hosts[0])}
    assert len(found) == 2
    for said in found.values():
        assert b"dlc" not in said


def listening_ports(host: Host) -> set[int]:
    """Of the processes of a host, as the kernel tells."""
    inodes = set()
    for pid in host.children():
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.add(str(fd.readlink()).partition("[")[2].rstrip("]"))
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    lines = [line.split() for table in tables for line in table]
    return {int(line[1].rpartition(":")[2], 16) for line in lines if line[3] == "0A" and line[9] in inodes}


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
    stranger: Rank = secured.take([port], patience=3.0, **({"environ_token": token} if token else {}))
    assert stranger.wait() != 0
    assert stranger.count == 0
    assert "ServersLostError" in stranger.log


def test_a_token_that_is_no_secret_is_not_used_for_tls() -> None:
    tls.check({"DLC_DATA_TLS": "0"}, None)
    with pytest.raises(SettingError, match="DLC_DATA_TOKEN is not set"):
        tls.check({"DLC_DATA_TLS": "1", "TRAINING_JOB_NAME": "known"}, None)
    with pytest.raises(SettingError, match="expected 0 or 1, found 'yes'"):
        tls.check({"DLC_DATA_TLS": "yes"}, None)


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes, bytes], tuple[Any, Any]]]:
    pytest.importorskip("cryptography")
    monkeypatch.setenv("DLC_DATA_TLS", "1")
    opened: list[Any] = []

    def made(one: bytes, other: bytes) -> tuple[Any, Any]:
        near, far = socket.socketpair()
        server = tls.secured(near, one, is_server=True)
        opened.append(server)
        client = tls.secured(far, other, is_server=False)
        opened.append(client)
        return server, client

    yield made
    for end in opened:
        end.close()


def receive(end: Any) -> bytes | None:
    try:
        return bytes(end.recv(100))
    except BlockingIOError:
        return None


def test_a_server_of_another_job_is_refused(pair: Any) -> None:
    server, client = pair(b"1" * 32, b"2" * 32)
    assert receive(server) is None
    with pytest.raises(RefusedError, match="is not of this job"):
        client.recv(1)


def test_both_sides_show_a_certificate_and_then_bytes_pass(pair: Any) -> None:
    server, client = pair(b"1" * 32, b"1" * 32)
    assert [receive(end) for end in (server, client, server)] == [None, None, None]
    assert client.send(b"a batch") == 7
    assert receive(server) == b"a batch"
    assert server._tls.version() == "TLSv1.3"
    assert server._tls.getpeercert()["subjectAltName"] == (("DNS", tls.NAME),)


def test_a_reader_takes_what_has_come_at_once_and_not_record_by_record(pair: Any) -> None:
    server, client = pair(b"1" * 32, b"1" * 32)
    assert [receive(end) for end in (server, client, server)] == [None, None, None]
    data = os.urandom(tls.RECORD + 5)  # two records
    assert server.send(data) == len(data)
    assert client.recv(1 << 16) == data
    assert client.pending() == 0


@pytest.mark.parametrize("seed", range(10))
def test_bytes_arrive_whole_whatever_the_kernel_takes_and_the_reader_asks_for(pair: Any, seed: int) -> None:
    chance = random.Random(seed)
    server, client = pair(b"1" * 32, b"1" * 32)
    with socket.socket(fileno=os.dup(server.fileno())) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, chance.choice([4096, 20_000, 300_000]))
    assert [receive(end) for end in (server, client, server)] == [None, None, None]
    data = chance.randbytes(chance.randrange(500_000, 1_000_000))
    left, found = memoryview(data), bytearray()
    while len(found) < len(data):
        with contextlib.suppress(BlockingIOError):
            cut = chance.randrange(1, 300_000)
            left = left[server.sendmsg([part for part in (left[:cut], left[cut:]) if part.nbytes]) :]
        with contextlib.suppress(BlockingIOError):
            room = bytearray(chance.choice([1000, 50_000, 300_000]))
            found += room[: client.recvmsg_into([memoryview(room)[:7], memoryview(room)[7:]])[0]]
        with contextlib.suppress(BlockingIOError):
            found += client.recv(chance.choice([100, 1 << 16]))
    assert found == data


def test_the_keys_of_two_processes_differ_though_their_authority_is_one() -> None:
    pytest.importorskip("cryptography")
    first = tls.identity(b"1" * 32)
    tls.identity.cache_clear()
    second = tls.identity(b"1" * 32)
    assert first.key != second.key
    context = ssl.create_default_context(cadata=first.authority.decode())
    assert context.get_ca_certs()[0]["subject"] == ((("commonName", f"{tls.NAME} authority"),),)
