"""TLS between two ends that hold the job's token, or do not: whole bytes, certificates, refusals."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dlc_runtime.dataservice.errors import ProtocolError, RefusedError, SettingError
from dlc_runtime.dataservice.wire import tls


def test_a_token_that_is_no_secret_is_not_used_for_tls() -> None:
    tls.check_settings({"DLC_DATA_TLS": "0"}, None)
    with pytest.raises(SettingError, match="DLC_DATA_TOKEN is not set"):
        tls.check_settings({"DLC_DATA_TLS": "1", "TRAINING_JOB_NAME": "known"}, None)
    with pytest.raises(SettingError, match="expected 0 or 1, found 'yes'"):
        tls.check_settings({"DLC_DATA_TLS": "yes"}, None)


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes, bytes], tuple[Any, Any]]]:
    monkeypatch.setenv("DLC_DATA_TLS", "1")
    opened: list[Any] = []

    def made(one: bytes, other: bytes) -> tuple[Any, Any]:
        near, far = socket.socketpair()
        server = tls.secure(near, one, is_server=True)
        opened.append(server)
        client = tls.secure(far, other, is_server=False)
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


class Stranger:
    """A socket over which any number of bytes comes; it notes how many are asked for."""

    def __init__(self, head: bytes) -> None:
        self.asked: list[int] = []
        self._head = head

    def setblocking(self, flag: bool) -> None:
        assert not flag

    def recv_into(self, view: memoryview) -> int:
        self.asked.append(view.nbytes)
        if len(self.asked) > 3:
            raise BlockingIOError
        size = min(len(self._head), view.nbytes)
        view[:size] = self._head[:size]
        self._head = self._head[size:]
        return size

    def send(self, data: Any) -> int:
        return len(data)


def test_of_who_has_shown_no_certificate_a_record_is_read_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_DATA_TLS", "1")
    record = b"\x16\x03\x01\x40\x00\x01\x00\xff\xff" + bytes(tls.CHUNK_BYTES)
    stranger = Stranger(record)
    with contextlib.suppress(ProtocolError):
        tls.TlsSocket(stranger, b"1" * 32, is_server=True)  # type: ignore[arg-type]
    assert stranger.asked
    assert max(stranger.asked) <= tls.RECORD_BYTES


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
    data = os.urandom(tls.RECORD_BYTES + 5)  # two records
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
    first = tls.identity(b"1" * 32)
    tls.identity.cache_clear()
    second = tls.identity(b"1" * 32)
    assert first.key != second.key
    context = ssl.create_default_context(cadata=first.authority.decode())
    assert context.get_ca_certs()[0]["subject"] == ((("commonName", f"{tls.NAME} authority"),),)
