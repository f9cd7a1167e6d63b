"""XLA's flags: TF_XLA_FLAGS and XLA_FLAGS as the script's process needs them. Pure.

TensorFlow ends the process for a flag that it does not know.
"""

from __future__ import annotations

from typing import NamedTuple

TENSORFLOW, XLA = "TF_XLA_FLAGS", "XLA_FLAGS"
ON_CPU, CACHE = "--tf_xla_cpu_global_jit", "--tf_xla_persistent_cache_directory"
# The cache's key holds a 64-bit hash of the whole program; to compare the programs too takes a twelfth of a warm start.
BY_KEY = "--tf_xla_disable_strict_signature_checks"
CLUSTER = ("--tf_xla_auto_jit=1", "--tf_xla_auto_jit=2")
DUMP, MOST_DUMPED = "--xla_dump_to", "--xla_dump_max_hlo_modules"
MODULES = 64  # programs of one process that debug mode keeps
FIRST_WITH_CACHE = (2, 19)  # before, XLA cannot write programs for the CPU, and the step fails


class Flags(NamedTuple):
    variables: dict[str, str]
    cache: str  # the folder in which XLA keeps its programs, "" for none


def compose(environ: dict[str, str], version: tuple[int, ...], on_cpu: bool, cache: str, dump: str) -> Flags:
    """`cache` and `dump`: folders, or "". What the job states itself is kept.

    Clustering from the first step on is taken out: it is switched on later, after the steps that it is compared with.
    """
    stated = [flag for flag in environ.get(TENSORFLOW, "").split() if flag not in CLUSTER]
    if on_cpu and not has(stated, ON_CPU):
        stated.append(ON_CPU)
    if not cache or version < FIRST_WITH_CACHE:
        cache = ""
    folder = value(stated, CACHE) or cache
    if folder and not has(stated, CACHE):
        stated.append(f"{CACHE}={folder}")
        stated += [] if has(stated, BY_KEY) else [BY_KEY]
    dumps = environ.get(XLA, "").split()
    if dump:
        dumps = [flag for flag in dumps if flag.rstrip("/") != f"{DUMP}={parent(dump)}"]  # the launcher's
        dumps += [] if has(dumps, DUMP) else [f"{DUMP}={dump}"]
        dumps += [] if has(dumps, MOST_DUMPED) else [f"{MOST_DUMPED}={MODULES}"]
    variables = {TENSORFLOW: " ".join(stated), XLA: " ".join(dumps)}
    return Flags({name: text for name, text in variables.items() if text or name in environ}, folder)


def has(flags: list[str], name: str) -> bool:
    return any(flag.partition("=")[0] == name for flag in flags)


def value(flags: list[str], name: str) -> str:
    return next((flag.partition("=")[2] for flag in reversed(flags) if flag.partition("=")[0] == name), "")


def parent(folder: str) -> str:
    """The report's folder, of a folder of one rank's programs."""
    return folder.rpartition("/")[0].rpartition("/")[0]
