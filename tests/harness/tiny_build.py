"""The smallest build of an image, by dlc's own code: a few files, onto nothing. A second of one core."""

from __future__ import annotations

import io
import struct
import tarfile
from collections.abc import Mapping
from pathlib import Path

from dlc.core.checkout import SourceFile
from dlc.engine.docker_client import Engine
from dlc.image_build import buildx, host_inputs
from dlc.image_build.buildx import new_log
from dlc.plan.contexts import Repo
from dlc.plan.plan import Plan
from dlc.plan.targets import Target

RECIPE = "FROM scratch\nCOPY --from=files . /\n"
WAITS = bytes.fromhex("b8220000000f05ebf7")  # x86 code that calls pause() for ever
ENDS = bytes.fromhex("31ffb83c0000000f05")  # and that calls exit(0)

# With two steps that run a program; for `numbered` files.
STEPS = RECIPE + 'RUN ["/program", "first"]\nRUN ["/program", "second"]\n'


def build(engine: Engine, ref: str, files: Mapping[str, bytes], cache: Path, recipe: str = RECIPE) -> Path:
    """Build an image of these files, which are programs all; returns the log. What `dlc build` does after its plan.

    They are a context beside the target's own, which is the same each time, as a lock is: BuildKit compares what it is
    sent with the context of that name and of a build with the same own one.
    """
    tree = {f"files/{name}": SourceFile(data, executable=True) for name, data in files.items()}
    target = Target("tiny", "Dockerfile", Repo("no files"), contexts={"files": Repo("files")}, tags=(ref,))
    plan, log = Plan((target,), ("tiny",)), new_log(cache, "build")
    inputs = host_inputs.collect(plan, {**tree, "Dockerfile": SourceFile(recipe.encode())}, cache)
    buildx.build_plan(plan, engine, inputs, log, epoch=0, revision="tiny")
    return log


def numbered(number: int) -> dict[str, bytes]:
    """A program that ends at once, and a file with a number: for each number a build that has no step in a cache."""
    return {"program": program(ENDS), "number": b"number %06d" % number}


def program(code: bytes) -> bytes:
    """A static ELF program of a few bytes."""
    base, start = 0x400000, 64 + 56
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header += struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, base + start, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, start + len(code), start + len(code), 0x1000)
    return header + segment + code


def archive(data: bytes) -> bytes:
    """A tar whose one file, `program`, can be run."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo("program")
        entry.size, entry.mode = len(data), 0o755
        tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
