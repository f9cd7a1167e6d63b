"""Shows a running job in TensorBoard: of this machine if it has one, else in a container of the job's image.

It reads what the hosts write, and ends with the job. Its address is one of this machine alone.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from dlc.core.errors import DlcError, EngineError, ImageError
from dlc.core.process import last_lines, run_program_beside
from dlc.engine.docker_client import Engine, as_typed
from dlc.engine.questions import ASK_SECONDS, ask_engine
from dlc.places.local.containers import format_mount, make_labels, option_if_set
from dlc.places.local.job import Job

PROGRAM = "tensorboard"
LOOPBACK = "127.0.0.1"
# In the container: where the hosts' folders are, and the port.
FOLDER, PORT = "/watched", 6006
# What TensorBoard prints once it can be asked.
READY = re.compile(r"\bat (http://\S+)")
# What the client ends with if the image lacks the program.
NO_PROGRAM = 127
REMEDY = "pip install tensorboard here, or leave out --watch"

Say = Callable[[str], None]


def make_watch_words(job: Job) -> tuple[str, ...]:
    """Return the command that shows the job: a program of this machine, or what follows `docker`."""
    if shutil.which(PROGRAM):
        return _make_own_words(job)
    return _make_container_words(job)


def explain_watch(job: Job) -> str:
    """Return the command as it could be typed."""
    words = make_watch_words(job)
    return as_typed(*words) if words[0] == "run" else shlex.join(words)


def name_container(job: Job) -> str:
    """Return the name of TensorBoard's container: no host of a job is called so."""
    return f"{job.name}-{PROGRAM}"


@contextmanager
def watch_job(job: Job, engine: Engine, say: Say) -> Iterator[None]:
    """Run TensorBoard beside the block, and say its address as soon as it can be asked.

    Raises ImageError if neither this machine nor the image has it. If it ends before the block, it is said, and the
    job goes on.
    """
    watching = _watch_from_here(job, say) if shutil.which(PROGRAM) else _watch_from_image(job, engine, say)
    with watching:
        yield


def _make_own_words(job: Job) -> tuple[str, ...]:
    return (PROGRAM, "--logdir", str(job.folder / "hosts"), "--host", LOOPBACK, "--port", "0")


def _make_container_words(job: Job) -> tuple[str, ...]:
    labels = [word for label in make_labels(job) for word in ("--label", label)]
    return (
        *("run", "--detach", "--pull", "never", "--name", name_container(job), *labels),
        *("--publish", f"{LOOPBACK}::{PORT}", "--mount", format_mount(job.folder / "hosts", FOLDER, "readonly")),
        *option_if_set("--platform", job.platform),
        *option_if_set("--user", job.user),
        *("--entrypoint", PROGRAM, job.image, "--logdir", FOLDER, "--host", "0.0.0.0", "--port", str(PORT)),  # noqa: S104
    )


@contextmanager
def _watch_from_here(job: Job, say: Say) -> Iterator[None]:
    ended = Event()
    # With a dlc that is killed it ends too.
    guard = ("setpriv", "--pdeathsig", "TERM") if shutil.which("setpriv") else ()
    with run_program_beside((*guard, *_make_own_words(job)), lambda lines: _follow(lines, say, ended)):
        try:
            yield
        finally:
            ended.set()


@contextmanager
def _watch_from_image(job: Job, engine: Engine, say: Say) -> Iterator[None]:
    ended, name = Event(), name_container(job)
    done = engine.docker(*_make_container_words(job), check=False, timeout=ASK_SECONDS)
    if done.returncode == NO_PROGRAM:
        raise ImageError(f"--watch: expected {PROGRAM} on this machine or in {job.image}, found none", REMEDY)
    if done.returncode:
        raise EngineError(f"{PROGRAM} was not started: {last_lines(done.stderr, 1)}", REMEDY)
    place = ask_engine(engine, "port", name, f"{PORT}/tcp").stdout.split()
    address = f"http://{place[0]}/" if place else ""

    def read() -> None:
        follower = _Follower(say, ended, address)
        engine.docker_lines("logs", "--follow", name, on_line=follower.take)
        follower.tell_of_end()

    Thread(target=read, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        # What stays is removed with the rest of the job.
        with suppress(DlcError):
            engine.docker("rm", "--force", "--volumes", name, check=False, timeout=ASK_SECONDS)


def _follow(lines: Iterable[str], say: Say, ended: Event) -> None:
    follower = _Follower(say, ended)
    for line in lines:
        follower.take(line)
    follower.tell_of_end()


class _Follower:
    """Reads what TensorBoard prints. `address` is where it is found, if that is not what it prints itself."""

    def __init__(self, say: Say, ended: Event, address: str = "") -> None:
        self._say = say
        self._ended = ended
        self._address = address
        self._last = ""

    def take(self, line: str) -> None:
        """Take a line, and say the address if this line has it."""
        self._last = line.strip() or self._last
        if found := READY.search(line):
            self._say(f"{PROGRAM} of this job, until it ends: {self._address or found[1]}")

    def tell_of_end(self) -> None:
        """Say that TensorBoard has ended, unless the job has."""
        if not self._ended.is_set():
            self._say(f"{PROGRAM} has ended, the job goes on: {self._last or 'it said nothing'}")
