"""Signals at random moments: dlc ends, leaves nothing, and the next run is well."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scripted_server import serving
from toy_push import Registry, docker_client

from dlc.core import interrupts
from dlc.core.compression import COMPRESSIONS
from harness.package_index import PackageIndex

HANG_SECONDS = 300.0  # on a busy host a round of two seconds takes minutes

# Compresses without end, again and again; each time a signal comes within the first milliseconds.
COMPRESSING = """
import os, random, signal, sys, threading
from dlc.core import interrupts
from dlc.core.compression import COMPRESSIONS, Through

interrupts.install_handlers()
interrupts.keep_awake()

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
from dlc.images.inspection import facts
from dlc.images.inspection.archive import export_measured
from dlc.images.push.registry.repository import Repository
from dlc.images.push.registry.http import Session
from dlc.images.push.push import Order, push_image

def verb(argv):
    print("begun", flush=True)
    engine = Engine(None, "", "", containerd_store=False)
    order = Order("toy", "toy:1", "toy", ("1",), facts.inspect_image(engine, "toy:1"))
    push_image(order, Repository(Session(argv[0], "toy"), "toy"), engine, "gzip", lambda _: None, lambda: b"{}")
    export_measured(engine, "toy:1")
    return 0

dlc.cli.run = verb
sys.exit(main(sys.argv[1:]))
"""
# The same with a verb that makes a lock, by uv.
LOCKING = """
import sys
from pathlib import Path
import dlc.cli
from dlc.__main__ import main
from dlc.locks.resolve import LockRequest, make_lock, store_lock

def verb(argv):
    print("begun", flush=True)
    request = LockRequest(("dlc-ordinary==1.0",), (), (), (), "3.11", "2.36", "sha256:00", ())
    store_lock(make_lock(request), Path(argv[1]))
    return 0

dlc.cli.run = verb
sys.exit(main(sys.argv[1:]))
"""

# The same with a verb that builds an image, by a client that takes a while for its steps.
BUILDING = """
import sys
from pathlib import Path
import dlc.cli
from dlc.__main__ import main
from dlc.engine.connection import Engine
from harness import tiny_build

def verb(argv):
    print("begun", flush=True)
    tiny_build.build(Engine(None, "", "", containerd_store=False), "toy:1", {"file": b""}, Path(argv[1]))
    return 0

dlc.cli.run = verb
sys.exit(main(sys.argv[1:]))
"""
WORK = {"push": PUSHING, "lock": LOCKING, "build": BUILDING}
MANY = [pytest.mark.long, pytest.mark.timeout(3600)]  # signals: on a slow host each takes 5 s

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


@pytest.fixture
def client(tmp_path: Path) -> Path:
    """The folder of a docker client that has the image toy:1."""
    docker_client(tmp_path / "client")
    return tmp_path / "client"


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


@pytest.mark.parametrize(
    ("work", "rounds"),
    [("push", 20), ("lock", 5), ("build", 5), *(pytest.param(each, 200, marks=MANY) for each in WORK)],
)
def test_a_signal_at_any_moment_ends_all_work_which_leaves_nothing_and_can_be_repeated(
    work: str, rounds: int, client: Path, tmp_path: Path
) -> None:
    scratch, made = tmp_path / "scratch", tmp_path / "made"
    scratch.mkdir()
    index = PackageIndex(tmp_path, "127.0.0.1")
    index.add("dlc-ordinary", "1.0")
    index.start()
    environment = {
        **os.environ, **index.variables, "PATH": f"{client}:{os.environ['PATH']}", "TMPDIR": str(scratch),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }  # fmt: skip
    chance = random.Random(rounds)
    registry = Registry()
    with serving(registry) as server:

        def started() -> subprocess.Popen[bytes]:
            argv = [sys.executable, "-c", WORK[work], server.url, str(made)]
            child = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE)
            assert child.stdout
            with child.stdout as said:
                assert said.readline() == b"begun\n"
            return child

        begun = time.monotonic()
        assert started().wait(HANG_SECONDS) == 0
        whole = time.monotonic() - begun
        for number in range(rounds):
            if number % 2:  # else a push goes on where the one before was cut off
                registry.kept.clear()
            child = started()
            time.sleep(chance.uniform(0, whole))
            sent = chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
            child.send_signal(sent)
            # Python gives signals their default back as its last act, when all work is done; and one that has seen a
            # KeyboardInterrupt leave exec(TEXT), as of a dataclass, ends itself by SIGINT afterwards.
            assert child.wait(HANG_SECONDS) in (0, 130, -sent, -signal.SIGINT)
            assert [*scratch.iterdir(), *made.rglob("*drafts/*")] == []
            assert processes_of(client) + processes_of(scratch) == []
        assert started().wait(HANG_SECONDS) == 0
    index.stop()


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
        interrupts.install_handlers()
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert reached == ["end of the block"]
