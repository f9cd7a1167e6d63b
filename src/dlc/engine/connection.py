"""Finds the Docker engine to use: the user's own always first, then the private one, which it installs and starts."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass

from dlc.core.environment import engine_folder
from dlc.core.errors import EngineError
from dlc.core.process import run
from dlc.engine import packages
from dlc.engine.embedded import EmbeddedEngine, context_is_ours

PROBE_SECONDS = 20.0


@dataclass(frozen=True)
class Engine:
    """An engine that answered. `host` is None for the client's own context, else the value of DOCKER_HOST."""

    host: str | None
    origin: str  # "DOCKER_HOST", "context" or "embedded"
    version: str
    containerd_store: bool  # keeps manifests: digests, OCI export, unpacked and uncompressed images

    @property
    def environment(self) -> dict[str, str]:
        """What a docker client needs in its environment to reach this engine."""
        return {"DOCKER_HOST": self.host} if self.host else {}

    def require_containerd_store(self) -> None:
        """Raise EngineError for the classic store, which keeps no manifests and exports no OCI layouts."""
        if not self.containerd_store:
            raise EngineError(
                f"{self.host or 'the engine'}: expected the containerd image store, found the classic one",
                'set {"features": {"containerd-snapshotter": true}} in its daemon.json, or use `dlc engine start`',
            )


def connect(start: bool = True) -> Engine:
    """Return an engine that answers, starting the embedded one when `start` allows. Raises EngineError."""
    engine = find()
    if engine is None:
        engine = _start_embedded() if start else None
    if engine is None:
        raise EngineError("no Docker engine answers", "dlc engine start")
    _require_buildx(engine)
    return engine


def find() -> Engine | None:
    """The engine that can be used without starting anything, or None. A silent DOCKER_HOST is an error."""
    if host := os.environ.get("DOCKER_HOST"):
        if engine := probe(host, "DOCKER_HOST"):
            return engine
        raise EngineError(f"DOCKER_HOST={host}: no engine answers there", "start it, or unset DOCKER_HOST")
    if not context_is_ours() and (engine := probe(None, "context")):
        return engine
    embedded = EmbeddedEngine(engine_folder())
    return probe(embedded.host, "embedded") if embedded.pid() else None


def probe(host: str | None, origin: str) -> Engine | None:
    """Ask one engine who it is; None when nobody answers within PROBE_SECONDS."""
    if shutil.which("docker") is None:
        return None
    where = ["--host", host] if host else []
    done = run(["docker", *where, "info", "--format", "{{json .}}"], check=False, timeout=PROBE_SECONDS)
    info = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    if not info.get("ServerVersion"):
        return None
    store = dict(info.get("DriverStatus") or []).get("driver-type", "")
    return Engine(host, origin, info["ServerVersion"], store.startswith("io.containerd.snapshotter"))


def _start_embedded() -> Engine:
    if os.environ.get("DLC_ENGINE") == "off":
        raise EngineError("no Docker engine answers and DLC_ENGINE=off forbids to start one", packages.MANUAL_REMEDY)
    if reason := packages.can_install():
        raise EngineError(f"no Docker engine answers, and none can be started here: {reason}", packages.MANUAL_REMEDY)
    embedded = EmbeddedEngine(engine_folder())
    embedded.start()
    print(f"started a private Docker engine: {embedded.host} (dlc engine stop ends it)", file=sys.stderr)
    engine = probe(embedded.host, "embedded")
    if engine is None:
        raise EngineError("the embedded engine started and does not answer", f"see {embedded.log}")
    return engine


def _require_buildx(engine: Engine) -> None:
    if run(["docker", "buildx", "version"], env=engine.environment, check=False).returncode:
        raise EngineError(
            "the docker client has no buildx plug-in", "install it: the package docker-buildx or docker-buildx-plugin"
        )
