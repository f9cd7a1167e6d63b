"""Asks an engine about images, and removes images that a rebuild replaced."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Thread

from dlc.core.errors import DlcError, EngineError, ProcessError
from dlc.core.labels import KEY
from dlc.core.process import Completed, last_lines
from dlc.engine.docker_client import Engine
from dlc.engine.questions import ASK_SECONDS, ask_engine

REMOVAL_SECONDS = 20.0


@dataclass(frozen=True)
class Image:
    """One image as the engine has it."""

    ref: str
    # Of the manifest if the engine keeps one, else of the configuration.
    digest: str
    # The content key that it was built from; empty for an image that dlc did not build.
    key: str
    created: str
    # Bytes: the sum of its layers, unpacked.
    size: int


def find_images(
    engine: Engine, refs: Iterable[str], seconds: float = ASK_SECONDS, *, built: Iterable[str] = ()
) -> dict[str, Image]:
    """Return those of `refs` that the engine has. Raises EngineError if there is no answer within `seconds`.

    `built` are known to be there: their sizes are asked for at the same time.
    """
    wanted = sorted(set(refs))
    if not wanted:
        return {}
    with ThreadPoolExecutor() as pool:
        sizes = {ref: pool.submit(image_size, engine, ref, seconds) for ref in built}
        done = ask_engine(engine, "image", "inspect", *wanted, seconds=seconds)
    with expect_client_answer(engine, "docker image inspect", done.stdout):
        found = json.loads(done.stdout or "[]")
        named = [(tag, entry) for entry in found for tag in entry["RepoTags"] or [] if tag in wanted]
        return {
            tag: _parse_image(tag, entry, sizes[tag].result() if tag in sizes else image_size(engine, tag, seconds))
            for tag, entry in named
        }


def find_keys(engine: Engine, refs: Iterable[str], seconds: float = ASK_SECONDS) -> dict[str, str]:
    """Return the content key of each of `refs` that the engine has and dlc built.

    Raises EngineError as `find_images` does.
    """
    wanted = sorted(set(refs))
    form = '{{range .RepoTags}}{{.}} {{end}}|{{index .Config.Labels "' + KEY + '"}}'
    if not wanted:
        return {}
    done = ask_engine(engine, "image", "inspect", "--format", form, *wanted, seconds=seconds)
    rows = [line.rpartition("|") for line in done.stdout.splitlines()]
    return {tag: key for tags, _, key in rows if key for tag in tags.split() if tag in wanted}


def image_size(engine: Engine, ref: str, seconds: float = ASK_SECONDS) -> int:
    """Return the bytes of all layers, unpacked. Raises ProcessError for an image that is not there."""
    done = ask_engine(engine, "history", "--human=false", "--format", "{{.Size}}", ref, seconds=seconds)
    if done.returncode:
        raise ProcessError(f"{ref}: {last_lines(done.stderr, 1)}")
    return sum(int(line) for line in done.stdout.split())


@contextmanager
def expect_client_answer(engine: Engine, command: str, answer: str) -> Iterator[None]:
    """Turn an answer of another form than a Docker client's, within the block, into an EngineError that shows it."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise EngineError(
            f"{engine.address or 'the Docker engine'}: expected `{command}` to print JSON about images, "
            f"found {answer[:60]!r}",
            "check that docker on PATH is a Docker client",
        ) from None


@contextmanager
def remove_replaced(engine: Engine, refs: Iterable[str]) -> Iterator[None]:
    """Remove, after the block, the images that `refs` named before it and that have no name now.

    Other images without a name stay, because another build may need them, and so do those that a container uses. It is
    done in a thread, and before dlc ends.
    """
    before = _list_tags(engine, refs)
    try:
        yield
    finally:
        Thread(target=_remove_nameless, args=(engine, before)).start()


def _remove_nameless(engine: Engine, identifiers: Iterable[str]) -> None:
    # The build is done, and the next one tells of an engine that does not answer.
    with suppress(DlcError):
        if nameless := [identifier for identifier, tags in _list_tags(engine, identifiers).items() if not tags]:
            engine.docker("image", "rm", *nameless, check=False)


def _list_tags(engine: Engine, names: Iterable[str]) -> dict[str, list[str]]:
    """Return the id of each image that is there, with all its tags."""
    if not (wanted := sorted(names)):
        return {}
    form = "{{.Id}} {{range .RepoTags}}{{.}} {{end}}"
    done = ask_engine(engine, "image", "inspect", "--format", form, *wanted)
    # If no image is found, the answer is an empty line.
    rows = [line.split() for line in done.stdout.splitlines() if line]
    return {identifier: tags for identifier, *tags in rows}


def _parse_image(ref: str, entry: dict[str, object], size: int) -> Image:
    config = entry.get("Config")
    labels = (config.get("Labels") if isinstance(config, dict) else None) or {}
    return Image(ref, str(entry["Id"]), labels.get(KEY, ""), str(entry["Created"]), size)


def run_container(
    engine: Engine, *words: str, stdin: str, timeout: float, env: Mapping[str, str] | None = None
) -> Completed:
    """Run a container to its end, whatever its exit code, and remove it; what ends dlc removes it while it runs.

    The first process of a container ignores a SIGTERM that it does not handle, and the client waits for it: the client
    gets no time, and the engine is asked to end the container.
    """
    name = f"dlc-{uuid.uuid4().hex}"
    own = ("--rm", "--name", name, "--sig-proxy=false")
    try:
        return engine.docker("run", *own, *words, stdin=stdin, env=env, check=False, timeout=timeout, grace=0.0)
    except BaseException:
        engine.docker("rm", "--force", name, check=False, timeout=REMOVAL_SECONDS)
        raise
