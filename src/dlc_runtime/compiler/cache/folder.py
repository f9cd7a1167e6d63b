"""The folder of compiled code that outlives a job: DLC_COMPILE_CACHE, a subfolder per image and machine.

A cache that cannot be used is a warning: the job compiles into a folder of its own.
"""

from __future__ import annotations

import os
import shutil
import tempfile

from dlc_runtime.compiler.base.log import say
from dlc_runtime.compiler.cache import bounded, machine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import Any

FOLDER, GIGABYTES = "DLC_COMPILE_CACHE", "DLC_COMPILE_CACHE_GB"
INDUCTOR = "TORCHINDUCTOR_CACHE_DIR"
CHOSEN = "DLC_COMPILE_CACHE_CHOSEN"  # by a parent process: its children use the same
DEFAULT_GIGABYTES = 10.0
PROBE = 1 << 20  # bytes that must be writable
GIB = 1 << 30


def use(environ: MutableMapping[str, str]) -> dict[str, Any]:
    """Points inductor at the cache, for this process and its children; returns what the report says about it."""
    asked = environ.get(FOLDER, "")
    if not asked:
        return {}
    key = machine.key(environ)
    held: dict[str, Any] = {"asked": asked, "key": key, "folder": "", "warnings": []}
    if environ.get(CHOSEN):
        held["folder"] = environ[CHOSEN]
    else:
        held["folder"] = choose(asked, key, limit(environ, held["warnings"]), held["warnings"])
    for text in held["warnings"]:
        say(text)
    if held["folder"]:
        environ[INDUCTOR] = environ[CHOSEN] = held["folder"]
        environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "1")  # torch 2.3 and 2.4 have it off
        bounded.hold(held["folder"])
    return held


def choose(asked: str, key: str, most: float, warnings: list[str]) -> str:
    """The folder to compile into: the cache's own, or one of this job's with what the cache holds."""
    folder = os.path.join(asked, key)
    foreign = [name for name in names(asked) if name != key]
    if foreign and key not in names(asked):
        warnings.append(
            f"the cache {asked} holds code of {len(foreign)} other images or machines and none for this one ({key}): "
            f"this job compiles anew"
        )
    try:
        check_writable(folder)
    except OSError as fault:
        return instead(folder, most, str(fault), warnings)
    bounded.prune(asked, int(most * GIB))
    return folder


def check_writable(folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    probe = os.path.join(folder, f".probe-{os.getpid()}")
    try:
        with open(probe, "wb") as stream:
            stream.write(b"\0" * PROBE)
    finally:
        if os.path.lexists(probe):
            os.unlink(probe)


def instead(folder: str, most: float, fault: str, warnings: list[str]) -> str:
    """A folder of this job, with the cache's content where that can be read and is not too large."""
    try:
        own = tempfile.mkdtemp(prefix="dlc-compiled-")
    except OSError:
        warnings.append(f"the cache cannot be used: {fault}")
        return ""
    copied = ""
    if os.path.isdir(folder):
        try:
            if bounded.size(folder) <= min(most * GIB, shutil.disk_usage(own).free / 2):
                shutil.copytree(folder, own, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*"))
                copied = ", with a copy of what the cache holds"
        except (OSError, shutil.Error) as unread:
            warnings.append(f"the cache could not be read in full: {unread}")
    warnings.append(f"the cache cannot be written: {fault}. This job compiles into {own}{copied}")
    return own


def limit(environ: MutableMapping[str, str], warnings: list[str]) -> float:
    text = environ.get(GIGABYTES, "")
    try:
        value = float(text) if text else DEFAULT_GIGABYTES
        if value > 0:
            return value
    except ValueError:
        pass
    warnings.append(f"{GIGABYTES}={text}: expected a number above 0; {DEFAULT_GIGABYTES:g} is used")
    return DEFAULT_GIGABYTES


def names(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if os.path.isdir(os.path.join(folder, name)))
    except OSError:
        return []
