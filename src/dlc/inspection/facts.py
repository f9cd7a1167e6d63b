"""What a built image holds: packages, steps with their sizes, environment, labels. Other modules read only this."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from dlc.core.errors import ImageError
from dlc.engine import images
from dlc.engine.docker_client import Engine
from dlc.engine.questions import ask_engine

PROBE = Path(__file__).with_name("probe.py")
PROBE_SECONDS = 300.0
# First the Python of our images, then the one that any other Debian image may have.
INTERPRETERS = ("/opt/venv/bin/python", "/usr/bin/python3")


@dataclass(frozen=True)
class Package:
    """One Debian or Python package as it is installed, or the launcher."""

    # "debian", "python" or "dlc".
    kind: str
    name: str
    version: str
    # Debian's; empty for others.
    architecture: str
    # The Debian source package; empty for others.
    source: str
    source_version: str
    homepage: str
    # As the package names them, not yet SPDX.
    licences: tuple[str, ...]
    # Names, of which some may not be installed.
    requires: tuple[str, ...]
    # Further names by which others may require it.
    provides: tuple[str, ...]
    files: int
    # Bytes of its regular files, bytecode included.
    bytes: int
    # SPDX package verification code: SHA-1 over the SHA-1s of its files; empty without files.
    verification: str


@dataclass(frozen=True)
class Step:
    """A build step that left a layer: its command and the bytes it takes unpacked, as the engine measures them."""

    command: str
    bytes: int


@dataclass(frozen=True)
class Facts:
    """One image. `digest` is the engine's id of it; steps are oldest first and only those that left bytes."""

    ref: str
    digest: str
    created: str
    os: str
    python: str
    labels: Mapping[str, str]
    environment: Mapping[str, str]
    steps: tuple[Step, ...]
    packages: tuple[Package, ...]

    @property
    def bytes(self) -> int:
        """Return the bytes of all layers, unpacked: the figure that `dlc build` prints and budgets limit."""
        return sum(step.bytes for step in self.steps)

    @property
    def suite(self) -> str:
        """Return the code name of its Debian release; empty if its system names none."""
        match = re.search(r"\((\w+)\)", self.os)
        return match[1] if match else ""

    def of_kind(self, kind: str) -> tuple[Package, ...]:
        """Return its Debian packages, its Python packages or its launcher, by name."""
        return tuple(package for package in self.packages if package.kind == kind)


def capture_facts(engine: Engine, ref: str) -> Facts:
    """Collect the facts of an image. Raises ImageError if the engine lacks it, or no Python in it runs the probe."""
    inspected = inspect_image(engine, ref)
    history = engine.docker("history", "--no-trunc", "--human=false", "--format", "{{json .}}", ref).stdout
    probed = run_probe(engine, ref, PROBE)
    with images.expect_client_answer(engine, "docker history", history):
        return make_facts(ref, inspected, history.splitlines(), probed)


def inspect_image(engine: Engine, ref: str) -> dict[str, Any]:
    """Return `docker image inspect`. Raises ImageError if the engine does not have the image."""
    done = ask_engine(engine, "image", "inspect", ref)
    if done.returncode:
        raise ImageError(f"{ref}: expected a built image, found none in the engine", "dlc build GLOB; `dlc list`")
    with images.expect_client_answer(engine, "docker image inspect", done.stdout):
        inspected: dict[str, Any] = json.loads(done.stdout)[0]
        if not isinstance(inspected["Config"].get("Labels") or {}, dict):
            raise TypeError
        datetime.fromisoformat(inspected["Created"])
        return inspected


def make_facts(ref: str, inspected: Mapping[str, Any], history: Sequence[str], probed: Mapping[str, Any]) -> Facts:
    """Make facts from what `docker image inspect`, `docker history` (newest first) and the probe printed. Pure."""
    rows = [json.loads(line) for line in reversed(history)]
    steps = tuple(Step(row["CreatedBy"], int(row["Size"])) for row in rows if int(row["Size"]))
    config = inspected["Config"]
    environment = dict(entry.partition("=")[::2] for entry in config.get("Env") or [])
    packages = [_make_package("debian", found) for found in probed["debian"]]
    packages += [_make_package("python", found) for found in probed["python_packages"]]
    packages += [_make_package("dlc", found) for found in probed["dlc"]]
    return Facts(
        ref=ref,
        digest=inspected["Id"],
        created=inspected["Created"],
        os=probed["os"],
        python=probed["python"],
        labels=config.get("Labels") or {},
        environment=environment,
        steps=steps,
        packages=tuple(packages),
    )


def _make_package(kind: str, found: Mapping[str, Any]) -> Package:
    lists = {name: tuple(found[name]) for name in ("licences", "requires", "provides")}
    debian = {name: found.get(name, "") for name in ("architecture", "source", "source_version")}
    return Package(kind=kind, **{**found, **debian, **lists})


def run_probe(engine: Engine, ref: str, probe: Path) -> dict[str, Any]:
    """Run a script inside the image, without network and without the launcher; the JSON object that it prints.

    Raises ImageError if no Python in the image runs it.
    """
    script = probe.read_text()
    for python in INTERPRETERS:
        words = ("--interactive", "--network", "none", "--entrypoint", python, ref, "-I", "-")
        done = images.run_container(engine, *words, stdin=script, timeout=PROBE_SECONDS)
        if done.returncode == 0:
            with images.expect_client_answer(engine, "docker run", done.stdout):
                probed: dict[str, Any] = {**json.loads(done.stdout)}
                return probed
    reason = done.stderr.strip().splitlines()[-1:]
    raise ImageError(
        f"{ref}: expected a Python among {', '.join(INTERPRETERS)} that runs {probe.name}, found: {''.join(reason)}"
    )
