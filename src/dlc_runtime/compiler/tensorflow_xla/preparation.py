"""Sets XLA's flags and cleans its cache before TensorFlow is imported. Standard library only."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from typing import NamedTuple

from dlc_runtime.compiler import settings as settings_of
from dlc_runtime.compiler.cache import cache_folder, machine
from dlc_runtime.compiler.hooks import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import Any, BinaryIO

OWN = "dlc-programs-"
ROOM = 1 << 29  # bytes
FULL = "the cache {} has less than 512 MiB of room: this job compiles without it"
DUMPS = "xla"  # in the report's folder


class Prepared:
    """Facts of the preparation that the session needs."""

    def __init__(self) -> None:
        self.cache: dict[str, Any] = {}  # for the report
        # The folder in which XLA leaves each program that it has compiled.
        self.programs = ""
        self.private = False  # nobody else writes there
        self.dumps = ""


prepared = Prepared()


def prepare(environ: MutableMapping[str, str], package: str) -> None:
    """Prepare the environment. `package`: TensorFlow's folder."""
    version = read_version(package)
    settings = settings_of.read_settings(environ)
    prepared.cache = cache_folder.use_cache(environ)
    kept = prepared.cache.get("folder", "")
    if kept:
        kept = os.path.join(kept, f"tensorflow-{'.'.join(map(str, version))}")
        os.makedirs(kept, exist_ok=True)
    if prepared.cache and version < FIRST_WITH_CACHE:
        name = ".".join(map(str, version))
        text = f"TensorFlow {name} cannot keep what it has compiled: {cache_folder.FOLDER} has no effect"
        prepared.cache["warnings"].append(text)
        log(text)
    rank = environ.get("RANK") or environ.get("OMPI_COMM_WORLD_RANK") or str(os.getpid())
    prepared.dumps = os.path.join(settings.report, DUMPS, rank) if settings.debug else ""
    if kept and not remove_damaged(kept, prepared.cache["warnings"]):
        kept = ""
    if kept and not has_room(kept):
        prepared.cache["warnings"].append(FULL.format(kept))
        log(FULL.format(kept))
        kept = ""
    on_cpu = machine.gpu_model() == "cpu"
    # On a GPU only if the job asks for a cache.
    own = make_own_folder(version) if on_cpu and not kept else ""
    found = compose_flags(dict(environ), version, on_cpu, kept or own, prepared.dumps)
    prepared.programs = found.cache
    prepared.private = bool(own) and found.cache == own
    environ.update(found.variables)


def has_room(folder: str) -> bool:
    """Tell whether XLA can write: it fails the step whose program it cannot write."""
    try:
        return shutil.disk_usage(folder).free >= ROOM
    except OSError:
        return False


def make_own_folder(version: tuple[int, ...]) -> str:
    """Make a folder for this process alone: the programs in it tell what was compiled, and of which shapes."""
    if version < FIRST_WITH_CACHE or not has_room(tempfile.gettempdir()):
        return ""
    try:
        found = tempfile.mkdtemp(prefix=OWN)
    except OSError:
        return ""
    atexit.register(shutil.rmtree, found, ignore_errors=True)
    return found


def read_version(package: str) -> tuple[int, ...]:
    """Read the folders beside the package, which is imported next; return (0,) if none tells."""
    try:
        names = sorted(os.listdir(os.path.dirname(package)))
    except OSError:
        return (0,)
    pattern = re.compile(r"tensorflow(?:_cpu|_gpu|_intel|_cpu_aws)?-(\d+)\.(\d+)\.(\d+)[^-]*\.dist-info")
    found = [match for match in map(pattern.fullmatch, names) if match]
    return tuple(map(int, found[0].groups())) if found else (0,)


TENSORFLOW, XLA = "TF_XLA_FLAGS", "XLA_FLAGS"
ON_CPU, CACHE = "--tf_xla_cpu_global_jit", "--tf_xla_persistent_cache_directory"
# The cache's key holds a 64-bit hash of the whole program; to compare the programs too takes a twelfth of a warm start.
BY_KEY = "--tf_xla_disable_strict_signature_checks"
CLUSTER = ("--tf_xla_auto_jit=1", "--tf_xla_auto_jit=2")
DUMP, MOST_DUMPED = "--xla_dump_to", "--xla_dump_max_hlo_modules"
# Programs of one process that debug mode keeps.
MODULES = 64
# Earlier versions cannot write programs for the CPU, and the step fails.
FIRST_WITH_CACHE = (2, 19)


class Flags(NamedTuple):
    variables: dict[str, str]
    # The folder in which XLA keeps its programs, "" for none.
    cache: str


def compose_flags(environ: dict[str, str], version: tuple[int, ...], on_cpu: bool, cache: str, dump: str) -> Flags:
    """Compose flags; `cache` and `dump` are folders, or "". What the job states itself is kept.

    Clustering from the first step on is taken out: it is switched on later, after the steps that it is compared with.
    """
    stated = [flag for flag in environ.get(TENSORFLOW, "").split() if flag not in CLUSTER]
    if on_cpu and not has_flag(stated, ON_CPU):
        stated.append(ON_CPU)
    if not cache or version < FIRST_WITH_CACHE:
        cache = ""
    folder = flag_value(stated, CACHE) or cache
    if folder and not has_flag(stated, CACHE):
        stated.append(f"{CACHE}={folder}")
        stated += [] if has_flag(stated, BY_KEY) else [BY_KEY]
    dumps = environ.get(XLA, "").split()
    if dump:
        dumps = [flag for flag in dumps if flag.rstrip("/") != f"{DUMP}={report_folder(dump)}"]  # the launcher's
        dumps += [] if has_flag(dumps, DUMP) else [f"{DUMP}={dump}"]
        dumps += [] if has_flag(dumps, MOST_DUMPED) else [f"{MOST_DUMPED}={MODULES}"]
    variables = {TENSORFLOW: " ".join(stated), XLA: " ".join(dumps)}
    return Flags({name: text for name, text in variables.items() if text or name in environ}, folder)


def has_flag(flags: list[str], name: str) -> bool:
    return any(flag.partition("=")[0] == name for flag in flags)


def flag_value(flags: list[str], name: str) -> str:
    return next((flag.partition("=")[2] for flag in reversed(flags) if flag.partition("=")[0] == name), "")


def report_folder(folder: str) -> str:
    """Return the report's folder for a folder of one rank's programs."""
    return folder.rpartition("/")[0].rpartition("/")[0]


def remove_damaged(folder: str, warnings: list[Any]) -> bool:
    """Return whether the folder can be used."""
    damaged = [path for path in program_files(folder) if not is_whole(path)]
    if not damaged:
        return True
    try:
        for path in damaged:
            os.unlink(path)
        text, usable = f"the cache {folder} held {len(damaged)} damaged programs: they are compiled anew", True
    except OSError as fault:
        text, usable = f"the cache {folder} holds damaged programs: {fault}. This job compiles without it", False
    warnings.append(text)
    log(text)
    return usable


def program_files(folder: str) -> list[str]:
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".pb")]
    except OSError:
        return []


def is_whole(path: str) -> bool:
    """Tell whether its parts (a protocol buffer's fields, each behind its size) end at the file's end."""
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as stream:
            while stream.tell() < size:
                read_number(stream)
                stream.seek(read_number(stream), os.SEEK_CUR)
            return size > 0 and stream.tell() == size
    except FileNotFoundError:
        return True  # another job has removed it
    except (OSError, ValueError):
        return False


def read_number(stream: BinaryIO) -> int:
    value = shift = 0
    while shift < 64:
        byte = stream.read(1)
        if not byte:
            break
        value |= (byte[0] & 127) << shift
        shift += 7
        if byte[0] < 128:
            return value
    raise ValueError("no number")
