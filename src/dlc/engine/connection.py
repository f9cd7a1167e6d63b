"""Finds the Docker engine to use: the user's own first, then the private one, which dlc installs and starts."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from threading import Thread
from typing import Any

from dlc.core.environment import PLATFORM, docker_platform, engine_folder, host_platform, starts_no_engine
from dlc.core.errors import EngineError
from dlc.core.process import Completed
from dlc.debian import apt
from dlc.engine import docker_client, remedies
from dlc.engine.docker_client import Engine
from dlc.engine.private_engine import PrivateEngine, is_installed
from dlc.engine.questions import ASK_SECONDS, takes_connections, tell_of_waiting

# For verbs that only look: they promise an answer within 5 s.
QUICK_SECONDS = 3.0
# Programs of NVIDIA's toolkit. An engine whose host has one may give GPUs and say nothing of it: it finds the hook on
# its PATH, and podman reads files of CDI.
TOOLKIT = ("nvidia-container-runtime-hook", "nvidia-ctk")


def search_engine() -> Future[Engine | None]:
    """Run `find_engine` in a thread of its own: for a caller that has other work before it needs the engine."""
    found: Future[Engine | None] = Future()

    def ask() -> None:
        try:
            found.set_result(find_engine(ASK_SECONDS))
        except Exception as error:
            # The error is raised again when the result is asked for.
            found.set_exception(error)

    Thread(target=ask, daemon=True).start()
    return found


def connect(start: bool = True, found: Future[Engine | None] | None = None) -> Engine:
    """Return an engine that answers. If there is none and `start` is true, the private one is started.

    That is done too if the client's own context leads to podman, unless this user cannot start an engine here.

    Raises EngineError.

    `found` is a search that was begun before.
    """
    engine = found.result() if found else find_engine(ASK_SECONDS)
    if start and (engine is None or (engine.is_podman and engine.origin == "context" and not _why_forbidden())):
        engine = _start_private()
    if engine is None:
        raise EngineError(absence_error(), advise_start())
    _require_buildx(engine)
    return engine


def find_engine_for_job() -> Engine:
    """Return an engine that answers.

    `connect` would ask for buildx besides, which nothing here needs, and start one.
    """
    return find_engine(ASK_SECONDS) or connect()


def find_running_engine() -> Engine:
    """Return the engine that answers, for what only looks after jobs: none is started, and buildx is not needed.

    Raises EngineError if none answers.
    """
    if engine := find_engine(ASK_SECONDS):
        return engine
    raise EngineError(absence_error(), advise_start())


def must_install(found: Future[Engine | None]) -> bool:
    """Tell whether `connect` will install an engine, since the search found none and this host lacks the programs."""
    if found.exception() or found.result():
        return False
    return not (_why_forbidden() or is_installed())


def find_engine(seconds: float = QUICK_SECONDS) -> Engine | None:
    """Return the engine that can be used without starting anything, or None. Takes `seconds` at most.

    Raises EngineError if the engine that the user names is not there, and if any engine does not answer.
    """
    with tell_of_waiting("`docker info`"):
        return _find_until(time.monotonic() + seconds)


def _find_until(deadline: float) -> Engine | None:
    private = PrivateEngine(engine_folder())
    if os.environ.get("DOCKER_HOST") == private.address and not private.pid():
        # The shell still has it from `dlc engine env`. The engine was stopped, so it may be started again.
        return None
    for variable in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        if chosen := os.environ.get(variable):
            address = chosen if variable == "DOCKER_HOST" else None
            return _require_answer(probe_engine(address, variable, deadline), f"{variable}={chosen}", variable, address)
    if not docker_client.is_present():
        return None
    podman = None
    name, place = docker_client.read_context(_seconds_left(deadline))
    if name != docker_client.CONTEXT:
        own = probe_engine(None, "context", deadline, place)
        if isinstance(own, Engine):
            podman = own if own.is_podman else None
            if not podman:
                return own
        elif remedies.DENIED.search(own):
            raise EngineError(f"the Docker engine of this host: {own}", remedies.advise_refused(place or None))
    found = probe_engine(private.address, "private", deadline) if private.pid() else None
    return found if isinstance(found, Engine) else podman


def absence_error() -> str:
    """Return the reason why `find_engine` found none."""
    return "no Docker engine answers" if docker_client.is_present() else docker_client.missing_error().message


def advise_start() -> str:
    """Return what gets this user an engine if none answers."""
    error = _why_forbidden()
    return error.remedy if error else "dlc engine start"


def probe_engine(address: str | None, origin: str, deadline: float, place: str = "") -> Engine | str:
    """Return the engine at `address`, or the client's message if there is none.

    `deadline` is a time of the monotonic clock; `place` is the address of the client's own context. Raises EngineError
    if there is no answer until then, or one that is not JSON.
    """
    if not docker_client.is_present():
        raise docker_client.missing_error()
    seconds = _seconds_left(deadline)
    words = ("info", "--format", "{{json .}}")
    reach = docker_client.client_environment(address)
    try:
        done = docker_client.run_docker(*words, env=reach, check=False, timeout=seconds)
    except EngineError as error:
        if not takes_connections(address or place):
            raise
        raise EngineError(f"{error.message}; it takes connections: it is busy, or it hangs", error.remedy) from None
    try:
        info = json.loads(done.stdout)
        _require_docker_client(info)
        if not info.get("ServerVersion"):
            return _quote_client(done) or "; ".join(map(str, info.get("ServerErrors") or []))
        found = _parse_info(info, address, origin)
        return replace(found, is_podman=may_be_podman(info) and _ask_components(reach, deadline))
    except (ValueError, TypeError, AttributeError, RecursionError):
        if done.returncode:
            return _quote_client(done)
        raise EngineError(
            f"{address or 'the Docker engine of the current context'}: expected `docker info` to print JSON, found "
            f"{done.stdout[:60]!r}",
            "check that docker on PATH is a Docker client and that a Docker engine listens there",
        ) from None


def _parse_info(info: Mapping[str, Any], address: str | None, origin: str) -> Engine:
    """Parse the answer of `docker info`.

    Raises ValueError, TypeError or AttributeError for an answer of another form.
    """
    store = str(dict(info.get("DriverStatus") or []).get("driver-type", ""))
    found = docker_platform(str(info.get("Architecture") or os.uname().machine))
    plugins = (info.get("ClientInfo") or {}).get("Plugins") or []
    return Engine(
        address,
        origin,
        str(info["ServerVersion"]),
        store.startswith("io.containerd.snapshotter"),
        found,
        data_root=str(info.get("DockerRootDir") or ""),
        buildx=next((str(p.get("Path") or "") for p in plugins if p.get("Name") == "buildx" and not p.get("Err")), ""),
        cpus=int(info.get("NCPU") or 0),
        memory=int(info.get("MemTotal") or 0),
        offers_gpus=_offers_gpus(info),
    )


def _require_docker_client(info: Mapping[str, Any]) -> None:
    """Raise EngineError for the answer of podman's own client, which some distributions install as `docker`."""
    if "ServerVersion" not in info and "buildahVersion" in (info.get("host") or {}):
        raise EngineError(
            "docker on PATH: expected Docker's client, found podman's under this name",
            "install Docker's client with its buildx plug-in (Debian 13: docker-cli and docker-buildx) in place of "
            "podman-docker",
        )


def may_be_podman(info: Mapping[str, Any]) -> bool:
    """Tell whether `docker info` reads like podman's: it names no index of images, and Docker always does."""
    return info.get("IndexServerAddress") == ""


def _ask_components(reach: Mapping[str, str], deadline: float) -> bool:
    """Ask for the parts of an engine, and tell whether they are podman's."""
    words = ("version", "--format", "{{json .Server}}")
    return names_podman(
        docker_client.run_docker(*words, env=reach, check=False, timeout=_seconds_left(deadline)).stdout
    )


def names_podman(answer: str) -> bool:
    """Tell whether the answer of `GET /version` has podman among the parts of the engine."""
    try:
        return any(part.get("Name") == "Podman Engine" for part in json.loads(answer).get("Components") or ())
    except (ValueError, TypeError, AttributeError, RecursionError):
        return False


def _offers_gpus(info: Mapping[str, Any]) -> bool:
    """Tell whether an engine may take --gpus: NVIDIA's runtime, a GPU that it knows by CDI, or TOOLKIT on its host."""
    if "Runtimes" not in info:
        return True
    devices = [str(device.get("ID")) for device in info.get("DiscoveredDevices") or []]
    known = any("nvidia" in name for name in info["Runtimes"] or {}) or any("/gpu=" in name for name in devices)
    return known or any(map(shutil.which, TOOLKIT))


def _quote_client(done: Completed) -> str:
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else ""


def _seconds_left(deadline: float) -> float:
    return round(max(0.1, deadline - time.monotonic()), 1)


def _require_answer(found: Engine | str, place: str, variable: str, address: str | None) -> Engine:
    if isinstance(found, str):
        remedy = remedies.advise_unreached(found, address, variable)
        raise EngineError(f"{place}: no engine answers there ({found})", remedy)
    return found


def _why_forbidden() -> EngineError | None:
    """Return why no private engine can be started here."""
    if starts_no_engine(os.environ):
        return EngineError(
            f"{absence_error()}, and DLC_ENGINE=off forbids to start one", remedies.advise_without_engine()
        )
    if reason := apt.can_install():
        return EngineError(
            f"{absence_error()}, and none can be started here: {reason}", remedies.advise_without_engine()
        )
    if host_platform() != PLATFORM:
        return docker_client.platform_error("this host", PLATFORM, host_platform())
    return None


def _start_private() -> Engine:
    if error := _why_forbidden():
        raise error
    private = PrivateEngine(engine_folder())
    if private.start():
        print(f"started a private Docker engine: {private.address} (dlc engine stop ends it)", file=sys.stderr)
    with tell_of_waiting("`docker info`"):
        found = probe_engine(private.address, "private", time.monotonic() + ASK_SECONDS)
    return _require_answer(found, str(private.folder), "DLC_ENGINE_DIR", private.address)


def _require_buildx(engine: Engine) -> None:
    if not engine.buildx and engine.docker("buildx", "version", check=False, timeout=ASK_SECONDS).returncode:
        raise EngineError(
            "the docker client has no buildx plug-in", "install it: the package docker-buildx or docker-buildx-plugin"
        )
