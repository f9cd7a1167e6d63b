"""Signals at random moments: dlc ends, leaves nothing, and the next run is well."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from scripted_server import Asked, Reply, serving

from dlc.core import interrupts
from dlc.core.compression import COMPRESSIONS

HANG_SECONDS = 300.0  # on a busy host a round of two seconds takes minutes
LAYER = random.Random(35).randbytes(1 << 20) * 8

# Compresses without end, again and again; each time a signal comes within the first milliseconds.
COMPRESSING = """
import os, random, signal, sys, threading
from dlc.core.compression import COMPRESSIONS, Through

class Endless:
    def read(self, size):
        return bytes(size)

for _ in range(int(sys.argv[2])):
    try:
        threading.Timer(random.uniform(0, 0.05), os.kill, (os.getpid(), signal.SIGINT)).start()
        COMPRESSIONS[sys.argv[1]](Endless(), Through())
    except KeyboardInterrupt:
        continue
print("ended", flush=True)
"""

# dlc with a verb that pushes one image and looks at its size: the whole of dlc but its command line and its plan.
PUSHING = """
import sys
import dlc.cli
from dlc.__main__ import main
from dlc.engine.connection import Engine
from dlc.images.inspection import export, facts
from dlc.images.push.registry.repository import Repository
from dlc.images.push.registry.session import Session
from dlc.images.push.run import Order, push

def verb(argv):
    print("begun", flush=True)
    engine = Engine(None, "", "", containerd_store=False)
    order = Order("toy", "toy:1", "toy", ("1",), facts.inspect(engine, "toy:1"))
    push(order, Repository(Session(argv[0], "toy"), "toy"), engine, "gzip", lambda _: None, lambda: b"{}")
    export.measured(engine, "toy:1")
    return 0

dlc.cli.run = verb
sys.exit(main(sys.argv[1:]))
"""

# A docker client that has one image: `toy.json` is what it says of it, `toy.tar` the image itself.
DOCKER = """#!/bin/sh
folder=$(dirname "$0")
case "$1" in
    image) cat "$folder/toy.json" ;;
    save) sleep 0.1; cat "$folder/toy.tar" >"$3" ;;
esac
"""


WAITING_CLIENT = """#!/bin/sh
folder=$(dirname "$0")
case "$1" in
    run) trap '' TERM; echo "$4" >"$folder/runs"; sleep 600 & wait; wait ;;
    rm) echo "$3" >"$folder/removed" ;;
esac
"""
RUNNING = """
import sys
import dlc.cli
from dlc.__main__ import main
from dlc.engine.connection import Engine
from dlc.engine.images import run_container

engine = Engine(None, "", "", containerd_store=False)
dlc.cli.run = lambda argv: run_container(engine, "toy:1", stdin="", timeout=600.0)
sys.exit(main([]))
"""


class Registry:
    """One that keeps manifests and blobs under their digests."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[str, bytes]] = {}

    def __call__(self, asked: Asked) -> Reply:
        path, _, query = asked.path.partition("?")
        name = query.partition("digest=")[2].replace("%3A", ":") or path.rpartition("/")[2]
        if asked.method == "POST":
            return Reply(202, {"Location": "/v2/toy/blobs/uploads/1"})
        if asked.method == "PUT":
            kept = (asked.headers.get("Content-Type", ""), asked.body)
            self.kept[name] = self.kept[f"sha256:{hashlib.sha256(asked.body).hexdigest()}"] = kept
            return Reply(201)
        if name not in self.kept:
            return Reply(404)
        kind, body = self.kept[name]
        return Reply(200, {"Content-Type": kind, "Content-Length": str(len(body))}, body)


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    item = tarfile.TarInfo(name)
    item.size = len(data)
    archive.addfile(item, io.BytesIO(data))


@pytest.fixture
def client(tmp_path: Path) -> Path:
    """The folder of a docker client that has the image toy:1."""
    folder = tmp_path / "client"
    folder.mkdir()
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as files:
        add(files, "data", LAYER)
    diff_ids = [f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"]
    created = "2026-11-27T00:00:00Z"
    config = {"created": created, "config": {}, "rootfs": {"diff_ids": diff_ids}}
    said = {"Created": created, "Config": {}, "RootFS": {"Layers": diff_ids}, "Size": len(LAYER)}
    (folder / "toy.json").write_text(json.dumps([said]))
    with tarfile.open(folder / "toy.tar", "w") as archive:
        add(archive, "config.json", json.dumps(config).encode())
        add(archive, "1/layer.tar", layer.getvalue())
        add(archive, "manifest.json", json.dumps([{"Config": "config.json", "Layers": ["1/layer.tar"]}]).encode())
    (folder / "docker").write_text(DOCKER)
    (folder / "docker").chmod(0o755)
    return folder


def processes_of(folder: Path) -> list[str]:
    """Command lines of the processes that name the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_text(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if str(folder) in command and path.parent.name != str(os.getpid()):
            found.append(command)
    return found


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_a_signal_at_any_moment_ends_a_compression(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMPRESSING, kind, "20"], capture_output=True, text=True, timeout=HANG_SECONDS
    )
    assert (done.stdout, done.returncode) == ("ended\n", 0), done.stderr


@pytest.mark.parametrize("rounds", [20, pytest.param(200, marks=pytest.mark.long)])
def test_a_signal_at_any_moment_ends_a_push_which_leaves_nothing_and_can_be_repeated(
    rounds: int, client: Path, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {**os.environ, "PATH": f"{client}:{os.environ['PATH']}", "TMPDIR": str(scratch)}
    chance = random.Random(rounds)
    registry = Registry()
    with serving(registry) as server:

        def started() -> subprocess.Popen[bytes]:
            child = subprocess.Popen(
                [sys.executable, "-c", PUSHING, server.url], env=environment, stdout=subprocess.PIPE
            )
            assert child.stdout
            with child.stdout as said:
                assert said.readline() == b"begun\n"
            return child

        begun = time.monotonic()
        assert started().wait(HANG_SECONDS) == 0
        whole = time.monotonic() - begun
        for number in range(rounds):
            if number % 2:  # else it goes on where the push before was cut off
                registry.kept.clear()
            child = started()
            time.sleep(chance.uniform(0, whole))
            sent = chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
            child.send_signal(sent)
            # Python gives signals their default back as its last act, when all work is done; and one that has seen a
            # KeyboardInterrupt leave exec(TEXT), as of a dataclass, ends itself by SIGINT afterwards.
            assert child.wait(HANG_SECONDS) in (0, 130, -sent, -signal.SIGINT)
            assert list(scratch.iterdir()) == []
            assert processes_of(client) == []
        assert started().wait(HANG_SECONDS) == 0


def test_a_container_ends_with_dlc_though_its_client_waits_for_it(tmp_path: Path) -> None:
    """As a client does for a container whose first process ignores SIGTERM."""
    (tmp_path / "docker").write_text(WAITING_CLIENT)
    (tmp_path / "docker").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    child = subprocess.Popen([sys.executable, "-c", RUNNING], env=environment, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + HANG_SECONDS
    while not (tmp_path / "runs").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=HANG_SECONDS)
    assert (child.returncode, said) == (130, "dlc: interrupted\n")
    assert (tmp_path / "removed").read_text() == (tmp_path / "runs").read_text()
    assert processes_of(tmp_path) == []


def test_a_signal_in_a_held_block_is_raised_at_its_end() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *interrupts.ONCE)}
    reached = []

    def interrupted() -> None:
        with interrupts.held:
            with interrupts.held:
                signal.raise_signal(signal.SIGINT)
            reached.append("end of the block")

    try:
        interrupts.arm()
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert reached == ["end of the block"]
