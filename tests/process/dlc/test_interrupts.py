"""Signals at random moments: dlc ends, leaves nothing, and the next run is well."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from interruptible_work import WORK, Workplace, processes_of

from dlc.core import interrupts
from dlc.core.compression import COMPRESSIONS

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
from dlc.engine.docker_client import Engine
from dlc.engine.images import run_container

engine = Engine(None, "", "", containerd_store=False)
dlc.cli.run = lambda argv: run_container(engine, "toy:1", stdin="", timeout=600.0)
sys.exit(main([]))
"""


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_a_signal_at_any_moment_ends_a_compression(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMPRESSING, kind, "20"], capture_output=True, text=True, timeout=HANG_SECONDS
    )
    assert (done.stdout, done.returncode) == ("ended\n", 0), done.stderr


@pytest.mark.parametrize(
    ("work", "rounds"),
    [("push", 8), ("lock", 5), ("build", 5), *(pytest.param(each, 200, marks=MANY) for each in WORK)],
)
def test_a_signal_at_any_moment_ends_all_work_which_leaves_nothing_and_can_be_repeated(
    work: str, rounds: int, tmp_path: Path
) -> None:
    chance = random.Random(rounds)
    with Workplace(tmp_path) as place:
        begun = time.monotonic()
        assert place.begin(work).wait(HANG_SECONDS) == 0
        whole = time.monotonic() - begun
        for number in range(rounds):
            if number % 2:  # else a push goes on where the one before was cut off
                place.registry.kept.clear()
            child = place.begin(work)
            time.sleep(chance.uniform(0, whole))
            sent = chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
            child.send_signal(sent)
            # Python gives signals their default back as its last act, when all work is done; and one that has seen a
            # KeyboardInterrupt leave exec(TEXT), as of a dataclass, ends itself by SIGINT afterwards.
            assert child.wait(HANG_SECONDS) in (0, 130, -sent, -signal.SIGINT)
            assert place.left() == []
        assert place.begin(work).wait(HANG_SECONDS) == 0


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


def test_a_held_block_of_another_thread_does_not_hold_the_main_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other thread enters its block while the main thread is in one, and goes on when the main thread is not."""
    asked, goes_on = threading.Event(), threading.Event()
    main = threading.current_thread()

    def is_main() -> bool:
        if threading.current_thread() is main:
            return True
        asked.set()
        return not goes_on.wait(HANG_SECONDS)

    def enter_block() -> None:
        with interrupts.held:
            pass

    monkeypatch.setattr(interrupts, "_is_main", is_main)
    other = threading.Thread(target=enter_block)
    with interrupts.held:
        other.start()
        assert asked.wait(HANG_SECONDS)
    goes_on.set()
    other.join(HANG_SECONDS)
    with pytest.raises(KeyboardInterrupt):
        interrupts._on_signal(signal.SIGINT, None)


# A signal comes while a callback of a weak reference runs, as there are in imports: nobody gets its exception.
LOSING = """
import signal, sys, time, weakref
import dlc.cli
from dlc.__main__ import main

class Thing:
    pass

def verb(argv):
    thing = Thing()
    kept = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGTERM))
    del thing
    time.sleep(60)
    return 0

dlc.cli.run = verb
sys.exit(main([]))
"""


def test_a_signal_whose_exception_reaches_nobody_ends_dlc_all_the_same() -> None:
    done = subprocess.run([sys.executable, "-c", LOSING], capture_output=True, text=True, timeout=HANG_SECONDS)
    assert (done.returncode, done.stderr) == (130, "dlc: interrupted\n")
