"""Records on which way a value goes through the source files of a checkout, from its first function to its last.

usage: python benchmarks/walks.py [CHECKOUT] [--walk run|submit|ranks ...]

A mark (a few letters) is put into a value, and a run is recorded: each function of the checkout counts once, at its
first call in which an argument holds the mark. Neighbours in one file are one stay; what goes back to a file where the
value was before is a return: returns = stays - files. Methods of the value itself (of named tuples, frozen
dataclasses and frozen models) are none, nor is what prints a line, nor what another thread does meanwhile.

run    the job of `dlc run` with two hosts, from the words that were typed until its first container starts. The docker
       client is tests/process/dlc/stand_in_docker.py, so that no engine is needed; the rest is what a user runs.
submit the job of a file with two hosts, until the objects of a cluster are printed.
ranks  a resourceconfig.json of two hosts, two launchers on this machine, until the leader starts torchrun (an empty
       program). The mark is the name of the other host.

library_walks.py has those of the library, which need PyTorch.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import inspect
import json
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
MARK = "0ddba11"
# Addresses of this machine: the second one is the mark.
HOSTS = ("127.83.71.1", "127.83.71.2")
# Objects whose fields are looked at, by the first name of their module.
LOOKED_INTO = ("dlc", "dlc_runtime", "launch")
CONTAINERS = (list, tuple, set, frozenset, collections.deque)
DEEPEST = 8
LOG, MAIN = "calls", 0
MOST_BYTES = 1 << 20
BOUND = 500
# Drives a walk, or a part of it, given the folder of the sources and one for what it writes.
Drive = Callable[[Path, Path], None]


class Call(NamedTuple):
    """A function that was called with the mark; without a file: the walk is at its end."""

    time: float
    thread: int
    file: str
    line: int
    function: str


def main(description: str, walks: Mapping[str, Drive], inner: Mapping[str, Drive], usual: Sequence[str]) -> None:
    """Record what was asked for; `inner` are the functions of `walks` that run in processes of their own."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", nargs="?", type=Path, default=ROOT)
    parser.add_argument("--walk", nargs="+", choices=[*walks], default=usual)
    parser.add_argument("--record", nargs=2, metavar=("WALK", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    source = arguments.checkout.resolve() / "src"
    if arguments.record:
        inner[arguments.record[0]](source, Path(arguments.record[1]))
        return
    for walk in arguments.walk:
        with tempfile.TemporaryDirectory(prefix="walks") as folder:
            walks[walk](source, Path(folder))
            show_walk(walk, read_calls(Path(folder) / LOG))


def read_calls(log: Path) -> list[Call]:
    """Read what was taken down, each function once: of the main thread, then of the one that has ended the walk."""
    calls = sorted(Call(*json.loads(line)) for line in log.read_text().splitlines())
    ended_by = next((call.thread for call in calls if not call.file), MAIN)
    if ended_by != MAIN:
        calls = [call for call in calls if call.thread in (MAIN, ended_by)]
        calls.sort(key=lambda call: (call.thread != MAIN, call.time))
    found: dict[tuple[str, int], Call] = {}
    for call in calls:
        found.setdefault((call.file, call.line), call)
    return [call for call in found.values() if call.file]


def show_walk(walk: str, calls: list[Call]) -> None:
    """Print stays, files and returns of a walk, and the functions of each stay."""
    stays: list[tuple[str, list[str]]] = []
    for call in calls:
        if not stays or stays[-1][0] != call.file:
            stays.append((call.file, []))
        stays[-1][1].append(call.function)
    files = {file for file, _ in stays}
    print(f"{walk}: {len(stays)} stays, {len(files)} files, {len(stays) - len(files)} returns")
    print("\n".join(f"  {file}: {', '.join(functions)}" for file, functions in stays))


class Recorder:
    """Takes down the functions below `source` that are called with the mark, each once in a thread."""

    def __init__(self, source: Path, mark: str, folder: Path, results_not_fields: bool = False) -> None:
        self._source, self._mark, self._with_results = f"{source}/", mark, results_not_fields
        # Shared with processes that are forked
        self._log = os.open(folder / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._is_on = True
        self._seen: set[tuple[int, CodeType]] = set()
        self._main = threading.get_ident()

    def start(self, in_threads: bool = True) -> None:
        """Begin, in this thread and in those that will be started."""
        if in_threads:
            threading.settrace(self.note_call)
        sys.settrace(self.note_call)

    def end(self) -> None:
        """End the walk, in the thread that has come to its end."""
        if self._is_on:
            self._write("", 0, "")
        self._is_on = False

    def _write(self, file: str, line: int, function: str) -> None:
        own = threading.get_ident()
        call = Call(time.monotonic(), MAIN if own == self._main else own, file, line, function)
        os.write(self._log, json.dumps(call).encode() + b"\n")

    def note_call(self, frame: FrameType, _event: str, _: object) -> Callable[..., None] | None:
        """Look at a call; return what looks at its result, for a function that may still be taken down."""
        code = frame.f_code
        if not code.co_filename.startswith(self._source) or not self._is_on:
            return None
        if (threading.get_ident(), code) in self._seen or (code.co_name[0] == "<" and code.co_name != "<lambda>"):
            return None
        if any(self._holds(value) for value in arguments_of(frame)):
            if not self._is_values_own(frame):
                self._take_down(code)
            return None
        frame.f_trace_lines = False
        return self._note_result if self._with_results else None

    def _note_result(self, frame: FrameType, event: str, result: object) -> None:
        if event == "return" and (threading.get_ident(), frame.f_code) not in self._seen and self._holds(result):
            self._take_down(frame.f_code)

    def _take_down(self, code: CodeType) -> None:
        if self._is_on:
            self._seen.add((threading.get_ident(), code))
            self._write(code.co_filename[len(self._source) :], code.co_firstlineno, code.co_name)

    def _is_values_own(self, frame: FrameType) -> bool:
        """Tell whether the function is a method of the value itself, or of what prints a line."""
        first = next(arguments_of(frame), None)
        own = getattr(inspect.getattr_static(type(first), frame.f_code.co_name, None), "fget", None)
        own = own or getattr(type(first), frame.f_code.co_name, None)
        if getattr(own, "__code__", None) is not frame.f_code:
            return False
        return first in (sys.stdout, sys.stderr) or (is_value(first) and self._holds(first))

    def _holds(self, value: object) -> bool:
        """Tell whether the mark is in this value, or in what it holds."""
        # Of this search; kept, so that no id is used twice
        known: dict[int, object] = {}
        level = [value]
        for _ in range(DEEPEST):
            if any(self._is_marked(one) for one in level):
                return True
            known.update((id(one), one) for one in level)
            parts = (part for one in level for part in parts_of(one, with_fields=not self._with_results))
            level = [part for part in parts if id(part) not in known]
        return False

    def _is_marked(self, value: object) -> bool:
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._mark.encode() in bytes(value)[:MOST_BYTES]
        return isinstance(value, (str, os.PathLike)) and self._mark in str(value)


def arguments_of(frame: FrameType) -> Iterator[object]:
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    found = frame.f_locals
    yield from (found[name] for name in code.co_varnames[:count] if name in found)


def parts_of(value: object, with_fields: bool) -> list[object]:
    """Return what a container or an object of ours holds. Another thread may change it meanwhile."""
    try:
        if isinstance(value, Mapping):
            return [part for item in list(value.items()) for part in item]
        if isinstance(value, CONTAINERS):
            return list(value)
        is_ours = type(value).__module__.partition(".")[0] in LOOKED_INTO and not isinstance(value, type)
        if with_fields and (is_ours or isinstance(value, argparse.Namespace)):
            slots = [getattr(value, name, None) for name in getattr(type(value), "__slots__", ())]
            return [*getattr(value, "__dict__", {}).values(), *slots]
    except RuntimeError:
        pass
    return []


def is_value(value: object) -> bool:
    if dataclasses.is_dataclass(value):
        return bool(type(value).__dataclass_params__.frozen)  # type: ignore[attr-defined]
    is_frozen_model = getattr(type(value), "model_config", {}).get("frozen", False)
    return is_frozen_model or (isinstance(value, tuple) and hasattr(value, "_fields"))


def inside(walk: str, source: Path, folder: Path, *options: str) -> list[str]:
    return [
        sys.executable,
        *options,
        str(Path(sys.argv[0]).resolve()),
        str(source.parent),
        "--record",
        walk,
        str(folder),
    ]


def walk_verb(verb: str, source: Path, folder: Path) -> None:
    client = folder / "bin/docker"
    client.parent.mkdir()
    stand_in = ROOT / "tests/process/dlc/stand_in_docker.py"
    client.write_text(f'#!/bin/sh\nexec {sys.executable} {stand_in} "$@"\n')
    client.chmod(0o755)
    (folder / "docker").mkdir()
    (folder / MARK).mkdir()
    (folder / MARK / "train.py").write_text("print('trained')\n")
    (folder / "job.yml").write_text(f"image: registry.example/dlc:1\nscript: {MARK}/train.py\nname: job\nhosts: 2\n")
    environ = {
        "PATH": f"{client.parent}:{os.environ['PATH']}", "PYTHONPATH": str(source), "HOME": str(folder),
        "STAND_IN_DOCKER": str(folder / "docker"), "DOCKER_HOST": f"unix://{folder}/docker.sock",
        "DLC_CACHE_DIR": str(folder / "cache"),
    }  # fmt: skip
    subprocess.run(inside(verb, source, folder), env=environ, cwd=folder, check=True, timeout=BOUND, stdout=sys.stderr)


def record_verb(words: Sequence[str], source: Path, folder: Path) -> None:
    import secrets

    # Loaded before, because recording makes it slow.
    import dlc.cli.run_job
    import dlc.cli.submit
    import dlc.core.yaml_text  # noqa: F401
    from dlc.__main__ import main

    # The job's id ends so.
    secrets.token_hex = lambda *_: MARK
    recorder = Recorder(source, MARK, folder)

    def on_event(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen" and [*arguments[1]][:2] == ["docker", "run"]:
            recorder.end()

    sys.addaudithook(on_event)
    recorder.start()
    code = main(words)
    recorder.end()
    sys.exit(code)


def walk_ranks(source: Path, folder: Path) -> None:
    programs = folder / "venv/bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(sys.executable)
    (programs / "torchrun").write_text("#!/bin/sh\nexit 0\n")
    (programs / "torchrun").chmod(0o755)
    launcher = [sys.executable, "-I", "-S", str(source / "entrypoint/launcher.py"), "train"]
    commands = {HOSTS[0]: inside("ranks", source, folder, "-I", "-S"), HOSTS[1]: launcher}
    with socket.socket() as sock:
        sock.bind((HOSTS[0], 0))
        port = str(sock.getsockname()[1])
    started = []
    for host, command in commands.items():
        base = folder / host
        lay_out_host(base, host)
        environ = {
            "PATH": os.environ["PATH"], "SAGEMAKER_BASE_DIR": str(base), "DLC_RUN_DIR": str(base / "run"),
            "DLC_VENV": str(programs.parent), "DLC_JOB_TOKEN": "token", "DLC_GROUP_PORT": port,
            "DLC_NUM_GPUS": "0", "DLC_NUM_CPUS": "1", "DLC_HEARTBEAT_TIMEOUT": str(BOUND),
            # A busy machine is none of the walk's concern.
            "DLC_PREFLIGHT": "warn",
        }  # fmt: skip
        started.append(subprocess.Popen(command, env=environ, stdout=sys.stderr))
    codes = [process.wait(BOUND) for process in started]
    if any(codes):
        raise SystemExit(f"the launchers ended with {codes}")


def lay_out_host(base: Path, host: str) -> None:
    group = {"instance_group_name": "homogeneousCluster", "instance_type": "ml.c5.xlarge", "hosts": HOSTS}
    config = {
        "current_host": host, "hosts": HOSTS, "current_group_name": "homogeneousCluster",
        "current_instance_type": "ml.c5.xlarge", "network_interface_name": "lo", "instance_groups": [group],
    }  # fmt: skip
    asked = {"sagemaker_program": '"train.py"', "sagemaker_torch_distributed_enabled": "true"}
    (base / "input/config").mkdir(parents=True)
    (base / "code").mkdir()
    (base / "code/train.py").write_text("print('trained')\n")
    for name, content in {"resourceconfig": config, "hyperparameters": asked, "inputdataconfig": {}}.items():
        (base / f"input/config/{name}.json").write_text(json.dumps(content))


def record_ranks(source: Path, folder: Path) -> None:
    recorder = Recorder(source, HOSTS[1], folder)

    def on_event(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.posix_spawn" and any("torchrun" in str(word) for word in arguments[1]):
            recorder.end()

    sys.addaudithook(on_event)
    launcher = str(source / "entrypoint/launcher.py")
    sys.argv[:] = [launcher, "train"]
    recorder.start(in_threads=False)
    runpy.run_path(launcher, run_name="__main__")


VERBS = {
    "run": ["run", "--hosts", "2", "--distributed", "torchrun", "dlc/some:1", f"{MARK}/train.py"],
    "submit": ["submit", "job.yml", "--to", "kubernetes", "--dry-run"],
}
WALKS: dict[str, Drive] = {**{verb: partial(walk_verb, verb) for verb in VERBS}, "ranks": walk_ranks}
INSIDE: dict[str, Drive] = {
    **{verb: partial(record_verb, words) for verb, words in VERBS.items()},
    "ranks": record_ranks,
}

if __name__ == "__main__":
    main(__doc__ or "", WALKS, INSIDE, ["run", "ranks"])
