"""Builders of docker buildx: the driver of a builder, its platforms, and whether it answers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dlc.core.environment import PLATFORM, host_platform
from dlc.core.errors import EngineError
from dlc.core.platforms import require_runs_here
from dlc.core.process import last_lines
from dlc.engine.docker_client import Engine

# `Engine.origin` of a docker client whose builder is used, and no engine.
NO_ENGINE = "no engine"
# A builder in containers pulls its image and starts first.
START_SECONDS = 600.0
# The driver of an engine's own BuildKit.
DOCKER = "docker"
# An engine's own BuildKit pushes under a tag only: under one that ends so and that nobody reads, until it is verified.
UNVERIFIED = "-unverified"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
MAKE = "docker buildx ls lists them; docker buildx create --name NAME --driver docker-container makes one"


@dataclass(frozen=True)
class Builder:
    """A builder that answered."""

    name: str
    # docker, docker-container, kubernetes or remote.
    driver: str
    platforms: tuple[str, ...]

    @property
    def is_engine(self) -> bool:
        """Tell whether it is the BuildKit of a Docker engine, which is the docker context of its name."""
        return self.driver == DOCKER

    def require_platform(self, wanted: str = PLATFORM) -> None:
        """Raise EngineError if it builds no images of this platform, or if this host makes no base files for it.

        Raises HostError for a platform whose base files take QEMU here.
        """
        if self.platforms and wanted not in self.platforms:
            raise EngineError(
                f"--builder {self.name}: expected a builder for {wanted}, found one for {', '.join(self.platforms)}",
                f"name a builder with a node of {wanted}",
            )
        if wanted != PLATFORM:
            require_runs_here(wanted)
        elif host_platform() != wanted:
            raise EngineError(
                f"this host: expected {wanted}, whose base files it makes, found {host_platform()}",
                f"run dlc on a {wanted} host",
            )


def make_client(builder: Builder | None = None) -> Engine:
    """Return the docker client alone: nothing but its plug-in buildx is asked.

    buildx uses an engine's BuildKit only from within the engine's context.
    """
    context = builder.name if builder and builder.is_engine else ""
    return Engine(None, NO_ENGINE, "", containerd_store=True, context=context)


def find_builder(name: str) -> Builder:
    """Return the builder of this name, started if it is not. Raises EngineError if it is not there or not well."""
    if not NAME.fullmatch(name):
        raise EngineError(f"--builder {name}: expected the name of a builder of docker buildx, found other text", MAKE)
    words = ("buildx", "inspect", "--bootstrap", name)
    done = make_client().docker(*words, check=False, timeout=START_SECONDS)
    if done.returncode:
        raise _make_start_error(name, last_lines(done.stderr, 1).removeprefix("ERROR: "))
    return parse_inspected(name, done.stdout)


def _make_start_error(name: str, fault: str) -> EngineError:
    """Return the error of a builder that did not start. buildx says what failed, and of no address where."""
    known = make_client().docker("buildx", "inspect", name, check=False, timeout=START_SECONDS)
    places = [value for key, value in _read_rows(known.stdout) if key == "Endpoint"]
    if known.returncode or not places:
        return EngineError(f"--builder {name}: {fault}", MAKE)
    return EngineError(
        f"--builder {name}: expected BuildKit to answer at {', '.join(places)}, found: {fault}",
        f"start it there, or name another place: docker buildx rm {name}, then docker buildx create",
    )


def parse_inspected(name: str, said: str) -> Builder:
    """Parse what `docker buildx inspect` prints. Raises EngineError if no node of the builder runs."""
    rows = _read_rows(said)
    driver = next((value for key, value in rows if key == "Driver"), "")
    states = [value for key, value in rows if key == "Status"]
    faults = [value for key, value in rows if key == "Error"]
    if not driver or ((states or faults) and "running" not in states):
        fault = "; ".join(faults) or f"status {', '.join(states) or 'unknown'}"
        raise EngineError(
            f"--builder {name}: expected a builder that runs, found: {fault}",
            f"docker buildx inspect --bootstrap {name} shows what it lacks",
        )
    named = [part.strip().rstrip("*") for key, value in rows if key == "Platforms" for part in value.split(",")]
    return Builder(name, driver, tuple(dict.fromkeys(filter(None, named))))


def _read_rows(said: str) -> list[tuple[str, str]]:
    """Return the keys and values of what `docker buildx inspect` prints."""
    return [(key.strip(), value.strip()) for key, _, value in (line.partition(":") for line in said.splitlines())]
