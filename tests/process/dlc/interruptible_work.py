"""Work of dlc that a signal may cut off at any moment, in a folder with all that it asks: client, registry, index.

Each is the whole of dlc but its command line and its plan.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from scripted_server import serving
from toy_push import Registry, docker_client

from harness.package_index import PackageIndex

# A verb that pushes one image and looks at its size.
PUSHING = """
import sys
import dlc.cli
from dlc.__main__ import main
from dlc.engine.docker_client import Engine
from dlc.inspection import facts
from dlc.inspection.archive import export_measured
from dlc.registry.client.repository import Repository
from dlc.registry.client.http import Session
from dlc.registry.push import Order, push_image
from dlc.registry.tag_age import Claim

def verb(argv):
    print("begun", flush=True)
    engine = Engine(None, "", "", containerd_store=False)
    order = Order("toy", "toy:1", "toy", ("1",), facts.inspect_image(engine, "toy:1"))
    repository = Repository(Session(argv[0], "toy"), "toy")
    push_image(order, repository, engine, "gzip", lambda _: None, lambda: b"{}", Claim("", None))
    export_measured(engine, "toy:1")
    return 0

dlc.cli.run = verb
sys.exit(main(sys.argv[1:]))
"""
# One that makes a lock, by uv.
LOCKING = """
import sys
from pathlib import Path
import dlc.cli
from dlc.__main__ import main
from dlc.buildspec.locks.resolve import LockRequest, make_lock, store_lock

def verb(argv):
    print("begun", flush=True)
    request = LockRequest(("dlc-ordinary==1.0",), (), (), (), "3.11", "2.36", "sha256:00", ())
    store_lock(make_lock(request), Path(argv[1]))
    return 0

dlc.cli.run = verb
sys.exit(main(sys.argv[1:]))
"""

# One that builds an image, by a client that takes a while for its steps.
BUILDING = """
import sys
from pathlib import Path
import dlc.cli
from dlc.__main__ import main
from dlc.engine.docker_client import Engine
from harness import tiny_build

def verb(argv):
    print("begun", flush=True)
    tiny_build.build(Engine(None, "", "", containerd_store=False), "toy:1", {"file": b""}, Path(argv[1]))
    return 0

dlc.cli.run = verb
sys.exit(main(sys.argv[1:]))
"""
WORK = {"push": PUSHING, "lock": LOCKING, "build": BUILDING}


class Workplace:
    """Where work is begun, again and again; a `with` block ends what serves it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.client, self.scratch = folder, folder / "client", folder / "scratch"
        self.made = folder / "made"
        docker_client(self.client)
        self.scratch.mkdir()
        self.registry = Registry()
        self._environment: dict[str, str] = {}
        self._url = ""
        self._served = ExitStack()

    def __enter__(self) -> Self:
        index = PackageIndex(self.folder, "127.0.0.1")
        index.add("dlc-ordinary", "1.0")
        index.start()
        self._served.callback(index.stop)
        self._url = self._served.enter_context(serving(self.registry)).url
        self._environment = {
            **os.environ, **index.variables, "PATH": f"{self.client}:{os.environ['PATH']}",
            "TMPDIR": str(self.scratch), "PYTHONPATH": os.pathsep.join(sys.path),
        }  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._served.close()

    def begin(self, work: str, stderr: int | None = None) -> subprocess.Popen[bytes]:
        """Start one of WORK; return when it has begun."""
        argv = [sys.executable, "-c", WORK[work], self._url, str(self.made)]
        child = subprocess.Popen(argv, env=self._environment, stdout=subprocess.PIPE, stderr=stderr)
        assert child.stdout
        with child.stdout as said:
            assert said.readline() == b"begun\n"
        return child

    def left(self) -> list[str]:
        """What work left that has ended: files, and processes."""
        files = [*self.scratch.iterdir(), *self.made.rglob("*drafts/*")]
        return [*map(str, files), *processes_of(self.client), *processes_of(self.scratch)]


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
