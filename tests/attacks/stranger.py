"""A stranger's toolkit: what somebody can try who reaches a port of a job and does not hold the job's key.

Usage: stranger.py ATTACK ADDRESS PORT [HOST [RECORDED]]

It goes on until it is ended, and prints a line after each try. HOST is the host that it claims to be, RECORDED a file
with what a host of a job once sent on a connection. A new attack is a function below with a line in ATTACKS.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

BOUND = 1.0  # seconds for one connection
MOST_HELD = 600  # connections at a time, more than a job seats
SLOW = 0.05  # seconds between two bytes
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with RST
GREETING = b"dlc/2 group "
NONCE = b"a" * 64
PURPOSES = ("group", "probe", "exec", "batch", "lease")
CALLERS, HALF_CALLS = 60, 32  # connections, and calls on each
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, HEADERS, END_HEADERS = 4, 1, 4
CALLED = (b"/dlc.dataservice.Control/Challenge", b"/dlc.dataservice.Control/Describe", b"/grpc.health.v1.Health/Watch")


@dataclass(frozen=True)
class Target:
    """A port, and what is known of the job behind it."""

    address: str
    port: int
    host: str = "algo-2"
    recorded: bytes = b""

    def connect(self) -> socket.socket:
        """A connection. Raises OSError."""
        return socket.create_connection((self.address, self.port), BOUND)

    def send(self, data: bytes) -> None:
        """Send it on a connection of its own, and read until the other side has had enough or says nothing more."""
        with self.connect() as sock:
            sock.settimeout(0.2)
            sock.sendall(data)
            while sock.recv(1 << 16):
                pass


def garbage(target: Target) -> Iterator[None]:
    """Other protocols, and what is none."""
    deep = b"[" * 60_000
    for data in itertools.cycle((
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(200),
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\n" * 5000,
        b"\0" * 5000,
        os.urandom(1 << 16),
        b"PUT /0/0 HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        b"PUT /0/0 HTTP/1.1\r\nContent-Length: 10\r\n\r\n1",
        GREETING + b"x" * 200_000,
        GREETING + NONCE + b"\n" + b"b" * 64 + b" " + deep + b"\n",
        GREETING + NONCE + b" algo-2 " + b"b" * 64 + b"\n" + b"b" * 64 + b" " + b"9" * 10_000 + b"\n",
        GREETING + NONCE + b" algo-2 " + b"\xff" * 64 + b"\n",
        GREETING + NONCE + b" " + b"\xff" * 500 + b"\n",
    )):  # fmt: skip
        target.send(data)
        yield


def false_proof(target: Target) -> Iterator[None]:
    """A handshake as it is wanted for each purpose, of somebody who claims to be a host of the job, and a line."""
    join: dict[str, object] = {
        "kind": "join",
        "host": target.host,
        "instance": "1",
        "hub": "",
        "facts": {},
        "life sign": None,
    }
    for purpose, kind in itertools.cycle(itertools.product(PURPOSES, ("join", "end", "stopping", "bye", "done"))):
        proof, mac, claim = os.urandom(32).hex(), os.urandom(32).hex(), json.dumps({**join, "kind": kind})
        words = f"dlc/2 {purpose} {os.urandom(32).hex()} {target.host} {proof}\n{mac} {claim}\n"
        target.send(words.encode())
        yield


def reflection(target: Target) -> Iterator[None]:
    """What the other side itself has said, as a greeting, as a proof and as a line."""
    while True:
        with target.connect() as sock:
            sock.settimeout(0.2)
            greeting = sock.recv(1 << 10)
            words = greeting.split()
            nonce = words[2] if len(words) == 3 else NONCE
            sock.sendall(greeting or GREETING + NONCE + b"\n")
            while sock.recv(1 << 10):
                pass
        target.send(b" ".join((*words[:2], nonce, target.host.encode(), nonce)) + b"\n")
        yield


def flood(target: Target) -> Iterator[None]:
    """As many open connections as can be had, and new ones in the place of those that were closed."""
    held: list[socket.socket] = []
    while True:
        with contextlib.suppress(OSError):
            held.append(target.connect())
        if len(held) >= MOST_HELD:
            held.pop(0).close()
        yield


def slow_bytes(target: Target) -> Iterator[None]:
    """A greeting that takes minutes, on several connections at once."""
    text = GREETING + NONCE
    for position in itertools.cycle(range(len(text))):
        if position == 0:
            socks = [target.connect() for _ in range(20)]
        for sock in socks:
            sock.sendall(text[position : position + 1])
        time.sleep(SLOW)
        yield


def held(target: Target) -> Iterator[None]:
    """As many connections as can be had, each with a byte a second, and a new one for each that is lost."""
    socks: list[socket.socket] = []
    for letter in itertools.cycle(GREETING.decode() + "a" * MOST_HELD):
        while len(socks) < MOST_HELD:
            with contextlib.suppress(OSError):
                socks.append(target.connect())
            yield
        socks = [sock for sock in socks if _takes(sock, letter.encode())]
        time.sleep(1)
        yield


def _takes(sock: socket.socket, data: bytes) -> bool:
    """Send what can be sent; return whether the other side holds the connection open."""
    with contextlib.suppress(OSError):
        sock.setblocking(False)
        sock.send(data)
    return _is_open(sock)


def _is_open(sock: socket.socket) -> bool:
    """Read what has come; return whether the other side holds the connection open."""
    sock.setblocking(False)
    try:
        while sock.recv(1 << 16):
            pass
    except BlockingIOError:
        return True
    except OSError:
        pass
    sock.close()
    return False


def resets(target: Target) -> Iterator[None]:
    """Half a greeting, and a connection that breaks."""
    while True:
        with target.connect() as sock:
            sock.sendall(GREETING)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        yield


def half_calls(target: Target) -> Iterator[None]:
    """Calls of gRPC whose requests do not come, on connections that stay open for as long as they may."""
    socks: list[socket.socket] = []
    for path in itertools.cycle(CALLED):
        if len(socks) < CALLERS:
            socks.append(target.connect())
            calls = [_frame(HEADERS, END_HEADERS, 2 * number + 1, _headers(path)) for number in range(HALF_CALLS)]
            socks[-1].sendall(HTTP2 + _frame(SETTINGS, 0, 0, b"") + b"".join(calls))
        socks = [sock for sock in socks if _is_open(sock)]
        time.sleep(SLOW / 10)
        yield


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return a frame of HTTP/2."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _headers(path: bytes) -> bytes:
    """Return the headers of a call as HPACK writes them: POST and http out of its table, the others as text."""
    post_http, path_name, authority, content_type = b"\x83\x86", b"\x04", b"\x01", b"\x0f\x10"
    texts = ((path_name, path), (authority, b"x"), (content_type, b"application/grpc"), (b"\x00\x02te", b"trailers"))
    return post_http + b"".join(name + bytes((len(text),)) + text for name, text in texts)


def replay(target: Target) -> Iterator[None]:
    """What a host of this job has sent before, byte for byte."""
    while True:
        target.send(target.recorded)
        yield


ATTACKS: dict[str, Callable[[Target], Iterator[None]]] = {
    "garbage": garbage,
    "false proofs": false_proof,
    "reflection": reflection,
    "a flood": flood,
    "slow bytes": slow_bytes,
    "held": held,
    "resets": resets,
    "half calls": half_calls,
    "replay": replay,
}


def main() -> None:
    """Attack until ended. A connection that is refused or broken is a try too."""
    attack, address, port, *more = sys.argv[1:]
    host, recorded = (*more, "", "")[:2]
    target = Target(address, int(port), host, Path(recorded).read_bytes() if recorded else b"")
    while True:
        with contextlib.suppress(OSError):
            for _ in ATTACKS[attack](target):
                print("tried", flush=True)
        print("tried", flush=True)


if __name__ == "__main__":
    main()
