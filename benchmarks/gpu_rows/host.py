"""The GPU host: a Python with the library's line above the host's own packages, and what the host is."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from compiling import runs

# What the rows import, beside PyTorch.
PACKAGES = ("transformers", "accelerate", "pytest", "grpc", "grpc_health")
SMI = ("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
ASK = """
import importlib.metadata, json, os, platform, sys, sysconfig, torch
from importlib.util import find_spec
on_gpu = torch.cuda.is_available()
names = {"grpc": "grpcio", "grpc_health": "grpcio-health-checking"}
versions = {}
for name in ("torch", "triton", *sys.argv[1:]):
    if find_spec(name):
        try:
            versions[name] = importlib.metadata.version(names.get(name, name))
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "?"
print(json.dumps({
    "python": platform.python_version(), "torch": torch.__version__, "cuda": torch.version.cuda, "packages": versions,
    "gpu": torch.cuda.get_device_name() if on_gpu else "",
    "capability": list(torch.cuda.get_device_capability()) if on_gpu else [],
    "memory_gb": round(torch.cuda.get_device_properties(0).total_memory / 1e9, 1) if on_gpu else 0,
    "headers": os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")),
}))
"""


class Host(NamedTuple):
    """`python` sees the library's line, `folder` is for what the rows write, `facts` are for the report."""

    python: Path
    folder: Path
    rehearse: bool
    facts: dict[str, Any]

    @property
    def device(self) -> str:
        return "cpu" if self.rehearse else "cuda"

    def lacks(self, *names: str) -> str:
        """Return why a row that imports these packages is left out, or nothing."""
        absent = [name for name in names if name not in self.facts["packages"]]
        return f"{self.facts['host_python']} has no {', '.join(absent)}; carry it along (--carry)" if absent else ""


def prepare(python: str, carried: Path | None, folder: Path, rehearse: bool) -> Host:
    """Make the environment of the rows and ask the host what it is. Raises OSError or ValueError for bad input."""
    environment = runs.pythons(python, folder / "python").with_line
    if carried:
        unpack(carried, environment)
    argv = [str(environment), "-c", ASK, *PACKAGES]
    asked = subprocess.run(argv, capture_output=True, text=True, check=False, env=runs.clean({}))
    if asked.returncode:
        why = asked.stderr.strip().splitlines() or [f"exit code {asked.returncode}"]
        raise ValueError(f"{python} cannot import torch: {why[-1]}")
    facts = json.loads(asked.stdout.splitlines()[-1])
    facts |= {"host_python": python, "date": time.strftime("%Y-%m-%d %H:%M"), "cores": len(os.sched_getaffinity(0))}
    facts |= {"card": card(), "notes": [*notes(), *compiling_notes(facts["headers"])]}
    return Host(environment, folder, rehearse, facts)


def card() -> str:
    """Return the first GPU's name, driver and memory as NVIDIA's own program says them; nothing without it."""
    if not shutil.which(SMI[0]):
        return ""
    asked = subprocess.run(SMI, capture_output=True, text=True, check=False, timeout=60)
    return asked.stdout.splitlines()[0] if asked.returncode == 0 and asked.stdout else ""


def notes() -> list[str]:
    """Return what on this host makes rows slower."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return [
            f"the host's name does not resolve, and PyTorch waits 10 s for it: add `127.0.0.1 {name}` to /etc/hosts"
        ]
    return []


def compiling_notes(headers: bool) -> list[str]:
    """Return what Triton lacks to start kernels: without it every training stays eager."""
    found = []
    if not any(map(shutil.which, (os.environ.get("CC") or "cc", "gcc", "clang"))):
        found.append("no C compiler, so nothing can be compiled for a GPU: install gcc, or name one with CC")
    if not headers:
        found.append("no Python.h, so nothing can be compiled for a GPU: install python3-dev")
    return found


def unpack(carried: Path, python: Path) -> None:
    """Unpack the wheels of a folder into the environment, but those of packages that the host has.

    Raises ValueError for a folder without wheels, or with some for another Python.
    """
    wheels = sorted(carried.glob("*.whl"))
    if not wheels:
        raise ValueError(f"{carried}: expected wheels (*.whl), found none; make the folder with --carry")
    names = [wheel.name.split("-")[0] for wheel in wheels]
    ask = (
        "import importlib.metadata as m, json, re, sys\n"
        "plain = lambda name: re.sub('[-_.]+', '_', name).lower()\n"
        "has = {plain(d.metadata['Name']) for d in m.distributions() if d.metadata['Name']}\n"
        "present = [n for n in sys.argv[1:] if plain(n) in has]\n"
        "print(json.dumps([present, 'cp%d%d' % sys.version_info[:2]]))"
    )
    asked = subprocess.run([str(python), "-c", ask, *names], capture_output=True, text=True, check=True)
    present, version = json.loads(asked.stdout)
    lacking = [wheel for name, wheel in zip(names, wheels, strict=True) if name not in present]
    others = [wheel.name for wheel in lacking if is_for_another(wheel, version)]
    if others:
        raise ValueError(f"{carried}: {', '.join(others)}: not for {version}; --carry takes --for-python")
    site = next(python.parents[1].glob("lib/python*/site-packages"))
    for wheel in lacking:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)


def is_for_another(wheel: Path, version: str) -> bool:
    """Return whether a wheel's compiled code is of one Python, and not of this one such as cp312."""
    python, abi = wheel.stem.split("-")[-3:-1]
    return abi not in ("none", "abi3") and version not in python.split(".")
