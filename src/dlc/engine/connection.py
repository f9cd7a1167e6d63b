"""Finds the Docker engine to use: the user's own first, then the private one, which dlc installs and starts."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from dlc.core.environment import PLATFORM, engine_folder, host_platform, platform, starts_no_engine
from dlc.core.errors import EngineError
from dlc.core.process import GRACE_SECONDS, Completed
from dlc.debian import apt
from dlc.engine import client, context, remedies
from dlc.engine.private import PrivateEngine, is_installed
from dlc.engine.questions import ASK_SECONDS, told
from dlc.engine.sockets import takes_connections

QUICK_SECONDS = 3.0  # for verbs that only look: they promise an answer within 5 s
# Programs of NVIDIA's toolkit. An engine whose host has one may give GPUs and say nothing of it: it finds the hook on
# its PATH, and podman reads files of CDI.
TOOLKIT = ("nvidia-container-runtime-hook", "nvidia-ctk")


@dataclass(frozen=True)
class Engine:
    """An engine that answered. `address` is None for the client's own context, else the value of DOCKER_HOST."""

    address: str | None
    origin: str  # "DOCKER_HOST", "DOCKER_CONTEXT", "context" or "private"
    version: str
    containerd_store: bool  # keeps layers as blobs and unpacked; else the classic store: unpacked only
    platform: str = PLATFORM
    data_root: str = ""  # the folder of its host that holds its images; empty where it does not say
    buildx: str = ""  # the client's plug-in, a file; empty too where the client does not list its plug-ins
    cpus: int = 0  # of its host; 0 where it does not say
    memory: int = 0  # of its host, in bytes; 0 where it does not say
    offers_gpus: bool = True  # false only where it says so

    @property
    def environment(self) -> dict[str, str]:
        """What a docker client needs in its environment to reach this engine."""
        return client.reach(self.address)

    def docker(
        self,
        *words: str,
        check: bool = True,
        timeout: float = 600.0,
        show: bool = False,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        grace: float = GRACE_SECONDS,
    ) -> Completed:
        """Run the docker client on this engine to its end: `engine.docker("image", "inspect", ref)`.

        What ends dlc leaves it `grace` seconds. Raises EngineError for no answer within `timeout` seconds, ProcessError
        when it fails and `check` is true.
        """
        merged = {**self.environment, **(env or {})}
        return client.docker(*words, env=merged, check=check, timeout=timeout, show=show, stdin=stdin, grace=grace)

    def docker_lines(
        self,
        *words: str,
        on_line: Callable[[str], None],
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        cwd: Path | None = None,
        on_error: Callable[[str], None] | None = None,
    ) -> int:
        """The same for what takes long: each line of the output goes to `on_line`; returns the exit code.

        With `on_error` the lines of stderr go there, from another thread. The plug-in buildx is started by itself: the
        client would ask it first what it is.
        """
        merged = {**self.environment, **(env or {})}
        plugin = self.buildx if words[0] == "buildx" else ""
        return client.stream(
            *words, plugin=plugin, on_line=on_line, env=merged, stdin=stdin, cwd=cwd, on_error=on_error
        )

    def require_platform(self, wanted: str = PLATFORM) -> None:
        """Raise EngineError where this engine, or the host that makes base files for it, is of another platform."""
        for place, found in ((self.address or "the Docker engine", self.platform), ("this host", host_platform())):
            if found != wanted:
                raise _other_platform(place, wanted, found)


def search() -> Future[Engine | None]:
    """`find` in a thread of its own: for a caller that has other work before it needs the engine."""
    found: Future[Engine | None] = Future()

    def ask() -> None:
        try:
            found.set_result(find(ASK_SECONDS))
        except Exception as error:  # raised where the result is asked for
            found.set_exception(error)

    Thread(target=ask, daemon=True).start()
    return found


def connect(start: bool = True, found: Future[Engine | None] | None = None) -> Engine:
    """An engine that answers. If there is none and `start` is true, the private one is started. Raises EngineError.

    `found` is a search that was begun before.
    """
    engine = found.result() if found else find(ASK_SECONDS)
    if engine is None:
        engine = _start_private() if start else None
    if engine is None:
        raise EngineError(absence(), start_remedy())
    _require_buildx(engine)
    return engine


def must_install(found: Future[Engine | None]) -> bool:
    """Whether `connect` will install an engine, since the search found none and this host lacks the programs."""
    if found.exception() or found.result():
        return False
    return not (_forbidden() or is_installed())


def find(seconds: float = QUICK_SECONDS) -> Engine | None:
    """The engine that can be used without starting anything, or None. Takes `seconds` at most.

    Raises EngineError if the engine that the user names is not there, and if any engine does not answer.
    """
    with told("`docker info`"):
        return _find(time.monotonic() + seconds)


def _find(deadline: float) -> Engine | None:
    private = PrivateEngine(engine_folder())
    if os.environ.get("DOCKER_HOST") == private.address and not private.pid():
        return None  # the shell still has it from `dlc engine env`; it was stopped, so it may be started again
    for variable in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        if chosen := os.environ.get(variable):
            address = chosen if variable == "DOCKER_HOST" else None
            return _require(probe(address, variable, deadline), f"{variable}={chosen}", variable, address)
    if not client.present():
        return None
    name, place = context.current(_left(deadline))
    if name != context.NAME:
        own = probe(None, "context", deadline, place)
        if isinstance(own, Engine):
            return own
        if remedies.DENIED.search(own):
            raise EngineError(f"the Docker engine of this host: {own}", remedies.advise_refused(place or None))
    found = probe(private.address, "private", deadline) if private.pid() else None
    return found if isinstance(found, Engine) else None


def absence() -> str:
    """The reason why `find` found none."""
    return "no Docker engine answers" if client.present() else client.missing().message


def start_remedy() -> str:
    """What gets this user an engine where none answers."""
    error = _forbidden()
    return error.remedy if error else "dlc engine start"


def probe(address: str | None, origin: str, deadline: float, place: str = "") -> Engine | str:
    """The engine at `address`, or the client's message if there is none.

    `deadline` is a time of the monotonic clock; `place` is the address of the client's own context. Raises EngineError
    if there is no answer until then, or one that is not JSON.
    """
    seconds = _left(deadline)
    words = ("info", "--format", "{{json .}}")
    try:
        done = client.docker(*words, env=client.reach(address), check=False, timeout=seconds)
    except EngineError as error:
        if not takes_connections(address or place):
            raise
        raise EngineError(f"{error.message}; it takes connections: it is busy, or it hangs", error.remedy) from None
    try:
        info = json.loads(done.stdout)
        if not info.get("ServerVersion"):
            return _said(done) or "; ".join(map(str, info.get("ServerErrors") or []))
        return _engine(info, address, origin)
    except (ValueError, TypeError, AttributeError, RecursionError):
        if done.returncode:
            return _said(done)
        raise EngineError(
            f"{address or 'the Docker engine of the current context'}: expected `docker info` to print JSON, found "
            f"{done.stdout[:60]!r}",
            "check that docker on PATH is a Docker client and that a Docker engine listens there",
        ) from None


def _engine(info: Mapping[str, Any], address: str | None, origin: str) -> Engine:
    """Raises ValueError, TypeError or AttributeError for an answer of another form."""
    store = str(dict(info.get("DriverStatus") or []).get("driver-type", ""))
    found = platform(str(info.get("Architecture") or os.uname().machine))
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


def _offers_gpus(info: Mapping[str, Any]) -> bool:
    """Tell whether an engine may take --gpus: NVIDIA's runtime, a GPU that it knows by CDI, or TOOLKIT on its host."""
    if "Runtimes" not in info:
        return True
    devices = [str(device.get("ID")) for device in info.get("DiscoveredDevices") or []]
    known = any("nvidia" in name for name in info["Runtimes"] or {}) or any("/gpu=" in name for name in devices)
    return known or any(map(shutil.which, TOOLKIT))


def _said(done: Completed) -> str:
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else ""


def _left(deadline: float) -> float:
    return round(max(0.1, deadline - time.monotonic()), 1)


def _require(found: Engine | str, place: str, variable: str, address: str | None) -> Engine:
    if isinstance(found, str):
        remedy = remedies.advise_unreached(found, address, variable)
        raise EngineError(f"{place}: no engine answers there ({found})", remedy)
    return found


def _forbidden() -> EngineError | None:
    """Why no private engine can be started here."""
    if starts_no_engine(os.environ):
        return EngineError(f"{absence()}, and DLC_ENGINE=off forbids to start one", remedies.advise_without_engine())
    if reason := apt.can_install():
        return EngineError(f"{absence()}, and none can be started here: {reason}", remedies.advise_without_engine())
    if host_platform() != PLATFORM:
        return _other_platform("this host", PLATFORM, host_platform())
    return None


def _start_private() -> Engine:
    if error := _forbidden():
        raise error
    private = PrivateEngine(engine_folder())
    if private.start():
        print(f"started a private Docker engine: {private.address} (dlc engine stop ends it)", file=sys.stderr)
    with told("`docker info`"):
        found = probe(private.address, "private", time.monotonic() + ASK_SECONDS)
    return _require(found, str(private.folder), "DLC_ENGINE_DIR", private.address)


def _require_buildx(engine: Engine) -> None:
    if not engine.buildx and engine.docker("buildx", "version", check=False, timeout=ASK_SECONDS).returncode:
        raise EngineError(
            "the docker client has no buildx plug-in", "install it: the package docker-buildx or docker-buildx-plugin"
        )


def _other_platform(place: str, wanted: str, found: str) -> EngineError:
    return EngineError(
        f"{place}: expected {wanted}, the platform of these images, found {found}", f"run dlc on a {wanted} host"
    )
