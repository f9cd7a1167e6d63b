"""The private engine for real, in a network and folders of its own: started, busy, killed, stopped, removed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dlc.core.errors import EngineError
from dlc.engine.private_engine import PrivateEngine
from dlc.inspection.archive import read_archive
from harness import tiny_build

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]
IMAGE = "program:1"
HANG_SECONDS = 180.0
BAKE = """
import sys
from pathlib import Path
from dlc.image_build.buildx import run_bake
from dlc.engine.docker_client import Engine
address, text, log = sys.argv[1:]
run_bake(text, Engine(address, "private", "", containerd_store=False), Path(log), lambda step: None)
"""

# A build of which something ends when it has read a line of BuildKit's progress.
KILLED = """
import json, os, re, signal, sys
from pathlib import Path
from dlc.__main__ import main
from dlc.image_build.buildkit_log import Progress
from dlc.engine.docker_client import Engine
from harness import tiny_build
import dlc.cli

address, cache, number, last, what, engine = sys.argv[1:]
begun, feed = [], Progress.feed

def below(pid):
    words = [word for each in Path(f"/proc/{pid}/task").glob("*/children") for word in each.read_text().split()]
    found = list(map(int, words))
    return [*found, *(lower for each in found for lower in below(each))]

def feed_and_end(self, line, now=None):
    step = re.sub(" sha256:.*| [0-9.]+s.*| done", "", line.partition(" ")[2])  # a line says how far it is, too
    if step in begun or not step.startswith(("[", "exporting", "writing", "naming")):
        return feed(self, line, now)
    begun.append(step)
    if len(begun) == int(last):
        for pid in {"dlc": [], "its client": below(os.getpid()), "the engine": [int(engine)]}.get(what, []):
            os.kill(pid, signal.SIGKILL)
        if what == "Ctrl-C":
            os.kill(os.getpid(), signal.SIGINT)
        elif what != "the engine":
            os.kill(os.getpid(), signal.SIGKILL)
    return feed(self, line, now)

def verb(argv):
    tiny_build.build(Engine(address, "private", "", containerd_store=False), "killed:1",
                     tiny_build.numbered(int(number)), Path(cache), tiny_build.STEPS)
    print(len(begun))
    return 0

Progress.feed, dlc.cli.run = feed_and_end, verb
sys.exit(main([]))
"""

# A tiny image of a file below and two folders above; by `dlc build`, or without a cache as for a comparison.
IN_ORDER = """
import sys
from pathlib import Path
from dlc.image_build import buildx, host_inputs
from dlc.core.checkout import SourceFile
from dlc.engine.docker_client import Engine
from dlc.inspection.reproducible import build_from_nothing
from dlc.plan.contexts import Repo
from dlc.plan.plan import Plan
from dlc.plan.targets import Target

address, cache, number, how = sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]
recipe = "FROM scratch AS skeleton\\nCOPY --from=files lowest /\\nFROM skeleton\\nCOPY --from=files upper /\\n"
files = {"lowest/one": b"1", "upper/a/two": b"2", "upper/a-b/three": b"3", "upper/number": number.encode()}
tree = {f"files/{name}": SourceFile(data) for name, data in files.items()}
tree["Dockerfile"] = SourceFile(recipe.encode())
target = Target("tiny", "Dockerfile", Repo("none"), contexts={"files": Repo("files")}, tags=("order:1",))
plan = Plan((target,), ("tiny",))
engine, log = Engine(address, "private", "", containerd_store=False), buildx.new_log(cache, "build")
if how == "build":
    buildx.build_plan(plan, engine, host_inputs.collect(plan, tree, cache), log, epoch=0, revision="tiny")
else:
    print(build_from_nothing(plan, engine, tree, log, epoch=0, revision="tiny").digest)
"""


class Private:
    """A user whose engine, cache and docker configuration are in one short folder, in a network of their own."""

    def __init__(self, folder: Path, network: int) -> None:
        self.folder, self.network = folder, network
        self.engine = PrivateEngine(folder / "e")
        self._enter = ["nsenter", f"--net=/proc/{network}/ns/net"]
        variables = {"DLC_ENGINE_DIR": "e", "DLC_CACHE_DIR": "c", "DOCKER_CONFIG": "d"}
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("DOCKER_")}
        self._environment |= {name: str(folder / value) for name, value in variables.items()}
        self._environment["PYTHONPATH"] = str(ROOT / "tests")

    def named(self) -> None:
        """As `eval "$(dlc engine env)"` leaves the shell."""
        self._environment["DOCKER_HOST"] = self.engine.address

    def start(self, *argv: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*self._enter, *argv], env=self._environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip

    def dlc(self, *argv: str) -> subprocess.Popen[str]:
        return self.start(sys.executable, "-m", "dlc", "engine", *argv)

    def done(self, *argv: str, code: int = 0) -> tuple[str, str]:
        process = self.dlc(*argv)
        out, err = process.communicate(timeout=HANG_SECONDS)
        assert process.returncode == code, err
        return out, err

    def is_running(self) -> bool:
        """What `dlc engine status` says: not of an engine that takes more than 3 s to answer."""
        out, _ = self.dlc("status", "--json").communicate(timeout=HANG_SECONDS)
        return bool(json.loads(out)["running"])

    def docker(self, *argv: str, stdin: bytes = b"") -> str:
        argv = ("docker", "--host", self.engine.address, *argv)
        done = subprocess.run(
            [*self._enter, *argv], env=self._environment, input=stdin, capture_output=True, check=True
        )
        return done.stdout.decode()


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not so after {HANG_SECONDS:g} s: {what}"
        time.sleep(0.05)


@pytest.fixture
def private(engine: None) -> Iterator[Private]:
    """`engine`: what a private engine is made of is installed. The folder's name is short enough for a socket."""
    if os.geteuid() != 0 or not shutil.which("dockerd"):
        pytest.skip("a private engine needs root and dockerd")
    folder = Path(tempfile.mkdtemp(prefix="dlc-", dir="/tmp"))
    with subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) as network:
        while Path(f"/proc/{network.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
            assert network.poll() is None
            time.sleep(0.01)
        user = Private(folder, network.pid)
        yield user
        user.dlc("remove", "--yes", "--force").communicate(timeout=HANG_SECONDS)
        network.kill()
    shutil.rmtree(folder)


def test_two_starts_at_once_make_one_engine_and_json_is_all_that_they_print(private: Private) -> None:
    both = [private.dlc("start", "--json") for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=HANG_SECONDS)
        assert process.returncode == 0, err
        assert json.loads(out)["host"] == private.engine.address
    assert private.done("env")[0] == f"export DOCKER_HOST={private.engine.address}\n"


def test_a_second_engine_in_the_same_network_is_refused(private: Private) -> None:
    private.done("start")
    other = Private(private.folder / "2", private.network)
    _, err = other.done("start", code=EngineError.exit_code)
    assert f"another dockerd runs on this host (pid {private.engine.pid()})" in err
    assert "DOCKER_HOST" in err


def test_an_engine_at_work_is_not_stopped_unless_forced(private: Private) -> None:
    private.done("start")
    private.docker("import", "-", IMAGE, stdin=tiny_build.archive(tiny_build.program(tiny_build.WAITS)))
    private.docker("run", "--detach", "--network", "none", "--name", "trainer", IMAGE, "/program")
    _, err = private.done("stop", code=EngineError.exit_code)
    assert f"container trainer ({IMAGE})" in err
    assert "--force" in err
    _, err = private.done("remove", "--yes", code=EngineError.exit_code)
    assert "container trainer" in err
    private.docker("rm", "--force", "trainer")
    follower = private.start("docker", "--host", private.engine.address, "events", "--since", "0")
    assert follower.stdout
    assert follower.stdout.readline()
    deadline = time.monotonic() + HANG_SECONDS
    while "in use" not in private.dlc("stop").communicate(timeout=HANG_SECONDS)[1]:
        assert private.engine.pid(), "stopped while a client was connected"
        assert time.monotonic() < deadline
    assert private.engine.pid()
    assert json.loads(private.done("stop", "--force", "--json")[0])["stopped"] is True
    assert private.engine.pid() is None
    follower.communicate(timeout=HANG_SECONDS)


def test_after_kills_the_next_start_has_one_engine_that_answers(private: Private) -> None:
    starter = private.dlc("start")
    wait_until(lambda: private.engine.pid() is not None, "the engine has a process")
    first = private.engine.pid()
    assert first
    starter.kill()
    starter.communicate()
    private.done("start")
    assert private.engine.pid() == first
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: private.engine.pid() is None, "the engine is gone")
    assert json.loads(private.done("status", "--json")[0])["running"] is False
    private.done("start")
    wait_until(private.is_running, "the engine answers")
    private.done("stop", "--force")
    private.named()
    assert json.loads(private.done("start", "--json")[0])["host"] == private.engine.address


def test_what_a_killed_engine_left_is_removed_whole(private: Private) -> None:
    private.done("start")
    pid = private.engine.pid()
    assert pid
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: private.engine.pid() is None, "the engine is gone")
    private.done("remove", "--yes")
    assert not (private.folder / "e").exists()
    assert not (private.folder / "c").exists()
    assert str(private.folder) not in Path("/proc/self/mounts").read_text()
    contexts = private.folder / "d/contexts/meta"
    assert not contexts.exists() or not any(contexts.iterdir())


def test_a_build_gets_past_a_layer_that_the_classic_store_lost(private: Private) -> None:
    """Steps with one result, a restart, the last one's result removed: the engine deletes that of some others."""
    words = ("first", "second", "third", "last")

    def build(word: str) -> tuple[str, str]:
        recipe = f'FROM {IMAGE}\nRUN ["/program", "{word}"]\n'
        target = {"dockerfile-inline": recipe, "tags": [f"built:{word}"], "output": ["type=docker"]}
        log = private.folder / "log"
        log.unlink(missing_ok=True)
        bake = json.dumps({"target": {"default": target}})
        process = private.start(sys.executable, "-c", BAKE, private.engine.address, bake, str(log))
        _, err = process.communicate(timeout=HANG_SECONDS)
        assert process.returncode == 0, err
        return err, log.read_text()

    private.done("start")
    private.docker("import", "-", IMAGE, stdin=tiny_build.archive(tiny_build.program(tiny_build.ENDS)))
    for word in words:
        build(word)
    private.done("stop", "--force")
    private.done("start")
    private.docker("image", "rm", *(f"built:{word}" for word in words))
    [record] = [text for text in private.docker("buildx", "du", "--verbose").split("\n\n") if "/program last" in text]
    private.docker("builder", "prune", "--force", "--filter", f"id={record.split()[1]}")
    for word in words:
        err, log = build(word)
        assert ("ERROR" in log) == ("the engine has lost a cached layer: every step runs again" in err)
        private.docker("run", "--rm", "--network", "none", f"built:{word}", "/program")
        assert "ERROR" not in build(word)[1]


def test_layers_keep_their_order_after_a_build_without_a_cache_and_a_restart(private: Private) -> None:
    """The classic store writes a layer in another order if it knows the layer below by another copy."""

    def build(number: int, how: str = "build") -> str:
        process = private.start(
            sys.executable, "-c", IN_ORDER, private.engine.address, str(private.folder / "c"), str(number), how
        )
        out, err = process.communicate(timeout=HANG_SECONDS)
        assert process.returncode == 0, err
        return out.strip()

    def upper() -> list[str]:
        path = private.folder / "image.tar"
        private.docker("save", "--output", str(path), "order:1")
        return list(read_archive(path).layers[1].entries)

    private.done("start")
    build(1)
    names = upper()
    assert names == ["a", "a/two", "a-b", "a-b/three", "number"]
    built = private.docker("image", "inspect", "--format", "{{.Id}}", "order:1").strip()
    assert build(1, "from nothing") == built
    private.done("stop", "--force")
    private.done("start")
    build(2)
    assert upper() == names


def numbers(private: Private) -> set[int]:
    """The number that the image has in its file, where there is an image; it is whole."""
    if not private.docker("image", "ls", "--quiet", "killed:1"):
        return set()
    path = private.folder / "image.tar"
    private.docker("save", "--output", str(path), "killed:1")
    first, *steps = read_archive(path).layers
    assert (sorted(first.entries), len(steps)) == (["number", "program"], 2)
    return {int(found) for found in re.findall(rb"number ([0-9]{6})", path.read_bytes())}


@pytest.mark.long
@pytest.mark.parametrize("what", ["dlc", "its client", "Ctrl-C", "the engine"])
def test_a_build_that_is_cut_off_in_any_step_leaves_a_whole_image_and_is_repeated(what: str, private: Private) -> None:
    """Each step of BuildKit, and of its export: the image is the one before or the new one, and never a part."""

    def build(number: int, last: int) -> subprocess.Popen[str]:
        words = (private.engine.address, str(private.folder / "c"), str(number), str(last), what)
        return private.start(sys.executable, "-c", KILLED, *words, str(private.engine.pid()))

    private.done("start")
    out, err = (whole := build(0, 0)).communicate(timeout=HANG_SECONDS)
    assert whole.returncode == 0, err
    for number in range(1, int(out) + 1):
        cut = build(number, number)
        _, err = cut.communicate(timeout=HANG_SECONDS)
        assert "Traceback" not in err
        assert cut.returncode or what == "the engine"  # it may have done all before
        private.done("start")
        assert numbers(private) <= {number - 1, number}
        again = build(number, 0)
        _, err = again.communicate(timeout=HANG_SECONDS)
        assert again.returncode == 0, err
        assert numbers(private) == {number}
