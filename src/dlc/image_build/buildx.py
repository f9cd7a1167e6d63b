"""Builds a plan: one `docker buildx bake`, shown step by step, with a log file, typed failures and results."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import dlc
from dlc.core.atomic_files import draft_folder, report_disk_errors
from dlc.core.checkout import INSTALLED, is_in_git
from dlc.core.errors import BuildError, UsageError
from dlc.core.process import run_program
from dlc.engine import images
from dlc.engine.docker_client import Engine
from dlc.image_build import bake_file
from dlc.image_build.bake_file import NO_CACHES, Caches, HostInputs
from dlc.image_build.buildkit_log import BUSY, Progress, Running, Step, error_of
from dlc.plan.plan import Plan

# Local images are stored uncompressed: compression would take most of the build time. The classic store only names what
# the steps left; the containerd store writes it twice more.
CONTAINERD_OUTPUT = "type=image,compression=uncompressed,unpack=true"
CLASSIC_OUTPUT = "type=docker"
# Of a builder that is no engine: the client loads the image into the engine.
LOADED_OUTPUT = "type=docker"
BUILDX = {
    # Without this, the engine's own driver makes an image without a name of each parent: it is compressed, stored and
    # unpacked for nothing.
    "BUILDX_NO_DEFAULT_LOAD": "1",
    # Else it asks git about every target, for an attestation that these builds do not make.
    "BUILDX_GIT_INFO": "0",
    # Else buildx 0.20 and newer refuse every folder outside the working directory: the inputs lie in dlc's cache.
    "BUILDX_BAKE_ENTITLEMENTS_FS": "0",
}
# What the engine says when two of its clients meet, and not the build is at fault: an image was removed while another
# one was unpacked, and containerd deleted a snapshot that both share; or several builds gave an image its first name at
# the same moment, which only one of them may; or BuildKit lost track of a step that another build had begun
# (moby/buildkit issues 2303, 3635); or one target was sent fewer files of a folder than another, and the next step of
# the other found them gone (depot/cli pull request 489 tells of it); or the host is so busy that BuildKit missed a
# bound of its own, or lost its client.
# Finished steps are cached, so the build is run again.
COLLISION = re.compile(
    r"parent snapshot \S+ does not exist|image \"\S+\": already exists|failed to get edge: inconsistent graph state"
    rf"|failed to get state for index|lstat \S+/buildkit-mount\d+/\S+: no such file or directory|{BUSY}"
)
# What an engine with the classic store says of a cached step whose layer it has deleted: after a restart it forgets
# that several steps share one layer, and removing one of them (`docker builder prune`, or by itself when its cache is
# full) can take it from the others. Every step is then run again; later builds find the new results.
LOST_LAYER = re.compile(r"layer does not exist|failed to prepare \S+ as \S+: .*no such file or directory")
ATTEMPTS = 3
OnRunning = Callable[[Sequence[Running]], None]
# A Debian package that is not there in its recorded version.
NOTE = re.compile(r"^#\d+ [\d.]+ (debian: .*)")


@dataclass(frozen=True)
class Result:
    """One image after a build. `seconds` is the time of the whole bake it was part of, 0 if it was skipped."""

    id: str
    ref: str
    digest: str
    # Bytes of its layers, unpacked.
    size: int
    seconds: float
    built: bool


def build_plan(
    plan: Plan,
    engine: Engine,
    inputs: HostInputs,
    log: Path,
    *,
    epoch: int,
    revision: str,
    on_step: Callable[[Step], None] = lambda _: None,
    on_running: OnRunning = lambda _: None,
    caches: Caches = NO_CACHES,
    builder: str = "",
) -> float:
    """Build every target of the plan; return the seconds it took. The log keeps all that BuildKit printed.

    A `builder` builds in place of the engine, which then loads the images.

    Raises BuildError with the last lines of the failing step, or the error that `failure` finds in them. Finished steps
    stay cached.
    """
    output = LOADED_OUTPUT if builder else choose_exporter(engine)
    content = bake_file.render(plan, inputs, output=output, epoch=epoch, revision=revision, caches=caches)
    start = time.monotonic()
    with images.remove_replaced(engine, plan.refs):
        run_bake(json.dumps(content, indent=1), engine, log, on_step, on_running, name_builder(builder))
    return time.monotonic() - start


def name_builder(builder: str) -> tuple[str, ...]:
    """Return the words that let buildx use a builder."""
    return ("--builder", builder) if builder else ()


def choose_exporter(engine: Engine) -> str:
    """Return BuildKit's exporter for an image that stays in the engine."""
    return CONTAINERD_OUTPUT if engine.containerd_store else CLASSIC_OUTPUT


def run_bake(
    text: str, engine: Engine, log: Path, on_step: Callable[[Step], None], on_running: OnRunning = lambda _: None,
    words: tuple[str, ...] = (),
) -> None:  # fmt: skip
    """Run a bake file; again after a COLLISION, and without the cache if the engine has lost a part of it. Raises
    as `build` does. `words` are further ones of the command line.
    """
    options = words
    for attempt in range(ATTEMPTS):
        progress = Progress()

        def line(text: str, progress: Progress = progress) -> None:
            if step := progress.feed(text):
                on_step(step)
            on_running(tuple(progress.running.values()))

        code = _run_once(text, engine, log, line, options)
        said = f"{progress.failure()[2]}\n{progress.last}" if code else ""
        if attempt + 1 == ATTEMPTS:
            break
        if LOST_LAYER.search(said) and options == words:
            print("dlc: the engine has lost a cached layer: every step runs again", file=sys.stderr, flush=True)
            options = (*words, "--no-cache")
        elif not COLLISION.search(said):
            break
    if code:
        raise error_of(progress, log)


def _run_once(text: str, engine: Engine, log: Path, on_line: Callable[[str], None], options: tuple[str, ...]) -> int:
    """Run bake once; return its exit code."""
    noted: set[str] = set()
    # buildx leaves a folder in TMPDIR for each inline Dockerfile, so TMPDIR is a folder that is removed afterwards.
    with open_log(log) as handle, draft_folder(log.parent) as folder:

        def line(text: str) -> None:
            with report_disk_errors(log.parent):
                handle.write(text + "\n")
            # Each stage with Debian packages prints it again.
            if (note := NOTE.match(text)) and note[1] not in noted:
                noted.add(note[1])
                print(note[1], file=sys.stderr, flush=True)
            on_line(text)

        # On stdin, because proxy addresses may hold credentials, which belong in no file and no argument.
        words = ("buildx", "bake", "--file", "-", "--progress", "plain", "--provenance=false", *options)
        return engine.docker_lines(*words, on_line=line, env={**BUILDX, "TMPDIR": str(folder)}, stdin=text)


def read_results(plan: Plan, engine: Engine, seconds: float, built: set[str]) -> list[Result]:
    """Return what the engine has now of each selected image. Raises BuildError for an image that it does not have."""
    targets = [plan.target(identifier) for identifier in plan.selected]
    refs = [target.tags[0] for target in targets]
    found = images.find_images(engine, refs, built=refs)
    for target in targets:
        if target.tags[0] not in found:
            raise BuildError(f"{target.tags[0]}: the engine does not have it after the build")
    return [
        Result(
            t.id, t.tags[0], found[t.tags[0]].digest, found[t.tags[0]].size, seconds * (t.id in built), t.id in built
        )
        for t in targets
    ]


def read_epoch() -> int | None:
    """Return SOURCE_DATE_EPOCH; None if it is not set. Raises UsageError if it is no number."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not re.fullmatch(r"([0-9]{1,10})?", given):
        raise UsageError(
            f"SOURCE_DATE_EPOCH={given[:80]}: expected seconds since 1970, such as 1790000000, found other text",
            "correct it, or unset it: then the commit's time is taken",
        )
    return int(given) if given else None


def read_revision(root: Path) -> tuple[str, int]:
    """Return the commit that is built from (with `-dirty` if files differ) and its time in seconds.

    SOURCE_DATE_EPOCH, if set, is the time. Recipes of a wheel are of dlc's version, at time 0. A folder that is no git
    checkout is `unknown` at time 0, and so is any folder if there is no git. Raises UsageError for a SOURCE_DATE_EPOCH
    that is no number.
    """
    given = read_epoch()
    if root == INSTALLED:
        # Whatever checkout the environment lies in, they are of another one.
        return f"dlc-{dlc.__version__}", given or 0
    commit, seconds = _last_commit(root)
    if not commit:
        return "unknown", given or 0
    dirty = run_program(["git", "-C", str(root), "status", "--porcelain"], check=False).stdout.strip()
    return commit + ("-dirty" if dirty else ""), int(seconds) if given is None else given


def warn_undated(root: Path, revision: str, epoch: int) -> None:
    """Say on stderr that an image of these sources has no date, and what gives it one."""
    if revision == "unknown" and not epoch:
        print(
            f"dlc: warning: {root}: no git commit, so the image is dated 1970-01-01 and its revision is `unknown`: "
            "what sorts images by their date, or removes old ones, takes it for the oldest\n"
            "  remedy: git init && git add . && git commit -m 'first image' there, or SOURCE_DATE_EPOCH=$(date +%s)",
            file=sys.stderr,
        )


def _last_commit(root: Path) -> tuple[str, str]:
    """Return the commit and its time in seconds; two empty texts if git cannot tell. In a checkout that is a warning.

    git tells nothing of a checkout that another user owns: its configuration may name programs, which git would run.
    """
    found, said = "", "there is no git on PATH"
    if shutil.which("git"):
        done = run_program(["git", "-C", str(root), "log", "-1", "--format=%H %ct"], check=False)
        found, said = done.stdout.strip(), " ".join(done.stderr.split())
    if not found and is_in_git(root):
        print(f"dlc: warning: {root}: the revision in the image is `unknown`: {said}", file=sys.stderr)
    commit, _, seconds = found.partition(" ")
    return commit, seconds


def new_log(cache: Path, kind: str) -> Path:
    """Make an empty log file in the cache with a name that no other run has. Raises as `report_disk_errors` does."""
    folder = cache / "logs"
    with report_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(os.getpid()):
            path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{number}-{kind}.log"
            # A process in another container may have our pid.
            with suppress(FileExistsError):
                path.touch(exist_ok=False)
                return path
    # The numbers do not end.
    raise AssertionError


@contextmanager
def open_log(log: Path) -> Iterator[TextIO]:
    """Open the log to append; each line is written at once. Raises as `report_disk_errors` does."""
    with report_disk_errors(log.parent):
        log.parent.mkdir(parents=True, exist_ok=True)
        handle = log.open("a", buffering=1, errors="replace")
    try:
        yield handle
    finally:
        with report_disk_errors(log.parent):
            handle.close()
