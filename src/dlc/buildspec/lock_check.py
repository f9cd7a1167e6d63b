"""Refuses what no image may hold, whatever its buildspec says: two CUDA majors, or two frameworks."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from dlc.buildspec import cuda
from dlc.buildspec.locked import locked_versions
from dlc.buildspec.variant import Variant, normal_name
from dlc.core.checkout import Tree
from dlc.core.errors import LockError

# Framework -> the packages that contain it. Those of one framework write into the same folder.
FRAMEWORKS = {
    "pytorch": ("torch",),
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "intel-tensorflow", "tf-nightly"),
    "mxnet": ("mxnet",),
}
TENSORFLOW_CPU = "tensorflow-cpu"  # for no CUDA, which its version does not say
# From CUDA 13 on NVIDIA's wheels have no suffix; of these the version begins with CUDA's major.
VERSIONED = re.compile(r"(nvidia-(cublas|cuda-[a-z-]+|nvjitlink|nvtx)|cuda-(toolkit|bindings|python))$")
SUFFIXED = re.compile(r"^nvidia-.*-cu(\d+)$|-cuda(\d\d)")
# What CUDA's runtime is called; its version is CUDA's.
RUNTIME = re.compile(r"nvidia-cuda-runtime(-cu\d+)?$")
LOCAL = re.compile(r"\+cu(\d+)\d$")
# A line of `uv pip compile --annotation-style line`.
REQUIRED_BY = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==\S+(?: ;[^#]*)?\s+# via (.*)$", re.MULTILINE)
BUILDSPEC = "the buildspec"


def conflicts(versions: Mapping[str, str]) -> list[tuple[str, dict[str, str]]]:
    """The conflicts of a resolution: what was expected, and the packages (name -> what it is) that break it.

    Of each kind only the first package by name.
    """
    majors = {name: f"CUDA {major}" for name in sorted(versions) if (major := cuda_major(name, versions[name]))}
    frameworks = {name: name for names in FRAMEWORKS.values() for name in names if name in versions}
    found = [("one CUDA major", _firsts(majors)), ("one framework", frameworks)]
    return [(expected, packages) for expected, packages in found if len(packages) > 1]


def cuda_major(name: str, version: str) -> str:
    """The CUDA major that a package belongs to, as in `12`; empty if it belongs to none."""
    if match := SUFFIXED.search(name):
        return match[1] or match[2]
    if match := LOCAL.search(version):
        return match[1]
    return version.partition(".")[0] if VERSIONED.match(name) else ""


def cuda_version(versions: Mapping[str, str]) -> tuple[str, str]:
    """CUDA's version in these packages, as a device is written (`cu128`), and the package that says so; or nothing."""
    if TENSORFLOW_CPU in versions:
        return cuda.CPU, TENSORFLOW_CPU
    for name in sorted(versions):
        if RUNTIME.match(name):
            major, minor = [*versions[name].split("."), "0"][:2]
            return f"cu{major}{minor}", name
    for name in sorted(versions):
        if match := re.search(r"\+(cu\d+|cpu)$", versions[name]):
            return match[1], name
    return "", ""


def other_cuda(device: str, versions: Mapping[str, str]) -> str:
    """What is wrong where the packages are for another CUDA version than the device; empty where nothing is known."""
    found, name = cuda_version(versions)
    if not device or not found or found == device:
        return ""
    return f"expected packages for device {device}, found {name}=={versions[name]}, which is for {found}"


def chain(name: str, required_by: Mapping[str, Sequence[str]]) -> list[str]:
    """The shortest chain of requirements from the buildspec to a package; the package is last."""
    chains = deque([[name]])
    seen = {name}
    while chains:
        shortest = chains.popleft()
        parents = required_by.get(shortest[0], ())
        if BUILDSPEC in parents or not parents:
            return shortest
        chains.extend([parent, *shortest] for parent in parents if parent not in seen)
        seen.update(parents)
    return [name]


def requirers(annotated: str) -> dict[str, list[str]]:
    """Package -> what requires it (package names, or BUILDSPEC), from uv's annotated resolution."""
    return {
        normal_name(name): [_requirer(source) for source in sources.split(", ") if not source.startswith("-c")]
        for name, sources in REQUIRED_BY.findall(annotated)
    }


def _requirer(words: str) -> str:
    """A package's name; BUILDSPEC for `-r -` and `buildspec (pyproject.toml)`."""
    return BUILDSPEC if words.startswith("-r") or words.endswith("pyproject.toml)") else normal_name(words)


def require_sound(tree: Tree, variants: Iterable[Variant]) -> None:
    """Raise one LockError for all committed locks with a conflict; `dlc lock` shows the chains of requirements."""
    lines = []
    broken: dict[str, None] = {}
    for variant in variants:
        versions = locked_versions(tree, variant)
        if wrong := other_cuda(variant.settings.device, versions):
            lines.append(f"{variant.lock_folder}: {wrong}")
            broken[variant.id] = None
        for expected, packages in conflicts(versions):
            found = " and ".join(f"{name}=={versions[name]}{_kind(name, what)}" for name, what in packages.items())
            lines.append(f"{variant.lock_folder}: expected {expected}, found {found}")
            broken[variant.id] = None
    if lines:
        raise LockError("\n".join(lines), f"dlc lock {' '.join(broken)} shows what requires them")


def refusal(versions: Mapping[str, str], required_by: Mapping[str, Sequence[str]]) -> LockError | None:
    """The error for a resolution with conflicts, with the chain of requirements of each; None if it has none."""
    lines = []
    for expected, packages in conflicts(versions):
        chains = [
            f"  {' -> '.join(f'{step}=={versions[step]}' for step in chain(name, required_by))}{_kind(name, what)}"
            for name, what in packages.items()
        ]
        lines += [f"expected {expected}, found:", *chains]
    if not lines:
        return None
    return LockError("\n".join(lines), "drop or replace the first requirement of one of these chains in the buildspec")


def _firsts(kinds: Mapping[str, str]) -> dict[str, str]:
    """One name of each kind."""
    found: dict[str, str] = {}
    for name, kind in kinds.items():
        if kind not in found.values():
            found[name] = kind
    return found


def _kind(name: str, what: str) -> str:
    return "" if what == name else f" ({what})"
