"""What must be done before TensorFlow is imported: its version, the folder of compiled programs, XLA's flags."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile

from dlc_runtime.compiler.base import settings as settings_of
from dlc_runtime.compiler.base.log import say
from dlc_runtime.compiler.cache import folder, machine
from dlc_runtime.compiler.tensorflow_xla.entry import damaged, flags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import Any

OWN = "dlc-programs-"
ROOM = 1 << 29  # bytes
FULL = "the cache {} has less than 512 MiB of room: this job compiles without it"
DUMPS = "xla"  # in the report's folder


class Prepared:
    """What the session must know of it."""

    def __init__(self) -> None:
        self.cache: dict[str, Any] = {}  # for the report
        self.programs = ""  # the folder in which XLA leaves each program that it has compiled
        self.private = False  # nobody else writes there
        self.dumps = ""


prepared = Prepared()


def prepare(environ: MutableMapping[str, str], package: str) -> None:
    """`package`: TensorFlow's folder."""
    version = version_of(package)
    settings = settings_of.read(environ)
    prepared.cache = folder.use(environ)
    kept = prepared.cache.get("folder", "")
    if kept:
        kept = os.path.join(kept, f"tensorflow-{'.'.join(map(str, version))}")
        os.makedirs(kept, exist_ok=True)
    if prepared.cache and version < flags.FIRST_WITH_CACHE:
        name = ".".join(map(str, version))
        text = f"TensorFlow {name} cannot keep what it has compiled: {folder.FOLDER} has no effect"
        prepared.cache["warnings"].append(text)
        say(text)
    rank = environ.get("RANK") or environ.get("OMPI_COMM_WORLD_RANK") or str(os.getpid())
    prepared.dumps = os.path.join(settings.report, DUMPS, rank) if settings.debug else ""
    if kept and not damaged.remove(kept, prepared.cache["warnings"]):
        kept = ""
    if kept and not has_room(kept):
        prepared.cache["warnings"].append(FULL.format(kept))
        say(FULL.format(kept))
        kept = ""
    on_cpu = machine.gpu() == "cpu"
    own = own_folder(version) if on_cpu and not kept else ""  # on a GPU only where the job asks for a cache
    found = flags.compose(dict(environ), version, on_cpu, kept or own, prepared.dumps)
    prepared.programs = found.cache
    prepared.private = bool(own) and found.cache == own
    environ.update(found.variables)


def has_room(folder: str) -> bool:
    """XLA fails the step whose program it cannot write."""
    try:
        return shutil.disk_usage(folder).free >= ROOM
    except OSError:
        return False


def own_folder(version: tuple[int, ...]) -> str:
    """For this process alone: the programs in it tell what was compiled, and of which shapes."""
    if version < flags.FIRST_WITH_CACHE or not has_room(tempfile.gettempdir()):
        return ""
    try:
        found = tempfile.mkdtemp(prefix=OWN)
    except OSError:
        return ""
    atexit.register(shutil.rmtree, found, ignore_errors=True)
    return found


def version_of(package: str) -> tuple[int, ...]:
    """By the folders beside the package: importing it is what comes next. (0,) where nothing tells."""
    try:
        names = sorted(os.listdir(os.path.dirname(package)))
    except OSError:
        return (0,)
    pattern = re.compile(r"tensorflow(?:_cpu|_gpu|_intel|_cpu_aws)?-(\d+)\.(\d+)\.(\d+)[^-]*\.dist-info")
    found = [match for match in map(pattern.fullmatch, names) if match]
    return tuple(map(int, found[0].groups())) if found else (0,)
