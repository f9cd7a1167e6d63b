"""The lock of an image: whether it is fresh and unchanged, its versions, and what no lock may hold."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from dlc.buildspec import cuda_efa
from dlc.buildspec.requirement_forms import is_satisfied
from dlc.buildspec.variant import Variant, normal_name
from dlc.buildspec.versions import satisfies
from dlc.core.checkout import Tree, files_below
from dlc.core.environment import PLATFORM
from dlc.core.errors import LockError

FRAMEWORK = "framework.txt"
TRAINING = "training.txt"
FILES = ("cuda.txt", FRAMEWORK, TRAINING, "source.txt", "compiled.txt")
# What a project adds: with it, the other files are those of the released image below.
ADDED = "added.txt"
ALL_FILES = (*FILES, ADDED)
# Lines of a project's TRAINING: released versions that could not stay, and why.
CHANGED = "# changed: "
# The first lines of every lock file: Variant.lock_digest(), the platform, and a digest of what all files pin.
INPUT, FOR, CONTENT = "# dlc-lock-input: ", "# dlc-lock-platform: ", "# dlc-lock-content: "
HEADER_LINES = 3
MOST_NAMED = 5
# A requirement line and the indented lines (hashes) that continue it.
ENTRY = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s\\;]+).*(?:\n +.*)*", re.MULTILINE)
# Framework -> the packages that contain it. Packages of one framework write into the same folder.
FRAMEWORKS = {
    "pytorch": ("torch",),
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "intel-tensorflow", "tf-nightly"),
    "mxnet": ("mxnet",),
}
# The build for the CPU only; its version does not show that.
TENSORFLOW_CPU = "tensorflow-cpu"
# From CUDA 13 on NVIDIA's wheels have no suffix; of these the version begins with CUDA's major.
VERSIONED = re.compile(r"(nvidia-(cublas|cuda-[a-z-]+|nvjitlink|nvtx)|cuda-(toolkit|bindings|python))$")
SUFFIXED = re.compile(r"^nvidia-.*-cu(\d+)$|-cuda(\d\d)")
# The package of CUDA's runtime; its version is CUDA's.
RUNTIME = re.compile(r"nvidia-cuda-runtime(-cu\d+)?$")
LOCAL = re.compile(r"\+cu(\d+)\d$")
# A line of `uv pip compile --annotation-style line`.
REQUIRED_BY = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==\S+(?: ;[^#]*)?\s+# via (.*)$", re.MULTILINE)
BUILDSPEC = "the buildspec"


def with_headers(digest: str, texts: Mapping[str, str], platform: str = PLATFORM) -> dict[str, str]:
    """Return the lock files, by name, with these entries. `digest` is the digest of the requirements."""
    head = f"{INPUT}{digest}\n{FOR}{platform}\n{CONTENT}{_hash_entries(texts)}\n"
    return {name: head + texts[name] for name in _list_names(texts)}


def without_headers(files: Tree) -> Tree:
    """Return the files as a build has them: a step runs again only if entries of its own lock changed."""
    found = dict(files)
    for name in _list_names(files):
        if files[name].data.startswith(INPUT.encode()):
            body = files[name].data.split(b"\n", HEADER_LINES)[HEADER_LINES:]
            found[name] = replace(files[name], data=b"".join(body))
    return found


def _list_names(files: Iterable[str]) -> list[str]:
    """List the files of ALL_FILES that are there, in their order."""
    return [name for name in ALL_FILES if name in files]


def is_thin(tree: Tree, variant: Variant) -> bool:
    """Tell whether an image is a released image with a layer on top: its lock has the added packages by themselves."""
    return variant.base is not None and f"{variant.lock_folder}/{ADDED}" in tree


def list_changes(tree: Tree, variant: Variant) -> list[str]:
    """List the released versions that the lock of a project could not keep, and why."""
    text = _read_text(tree, f"{variant.lock_folder}/{TRAINING}")
    return [line.removeprefix(CHANGED) for line in text.splitlines() if line.startswith(CHANGED)]


def read_entries(tree: Tree, variant: Variant) -> dict[str, str]:
    """Return the text of each file of an image's lock without its first lines."""
    files = without_headers(files_below(tree, variant.lock_folder))
    return {name: _decode(files[name].data) for name in _list_names(files)}


def parse_entries(lock: str) -> dict[tuple[str, str], str]:
    """Map (normal name, version) to the whole entry with its hashes, from the text of one lock file, in its order."""
    return {(normal_name(match[1]), match[2]): match[0] for match in ENTRY.finditer(lock)}


def parse_versions(lock: str) -> dict[str, str]:
    """Map normal package names to versions, from the text of one lock file."""
    return dict(parse_entries(lock).keys())


def join_entries(tree: Tree, variant: Variant) -> str:
    """Join the text of all entries of an image's lock; empty if it has no lock."""
    texts = [_read_text(tree, f"{variant.lock_folder}/{name}") for name in ALL_FILES]
    return "\n".join(entry for text in texts for entry in parse_entries(text).values())


def locked_versions(tree: Tree, variant: Variant) -> Mapping[str, str]:
    """Return the version of every package of the image, over its lock files."""
    found: dict[str, str] = {}
    for path in (f"{variant.lock_folder}/{name}" for name in ALL_FILES):
        found |= _parse_file(tree[path].data) if path in tree else {}
    return found


# A plan asks for each lock several times.
@lru_cache(maxsize=256)
def _parse_file(data: bytes) -> Mapping[str, str]:
    return parse_versions(_decode(data))


def framework_version(tree: Tree, variant: Variant) -> str:
    """Return the locked version of the framework itself. Raises LockError if it is not in the lock."""
    name = normal_name(variant.framework_requirements[0])
    found = locked_versions(tree, variant)
    if name not in found:
        path = f"{variant.lock_folder}/{FRAMEWORK}"
        raise LockError(
            f"{path}: expected {variant.framework_requirements[0]}, found no {name}", f"dlc lock {variant.id}"
        )
    return found[name]


def require_fresh(tree: Tree, variants: Iterable[Variant], globs: Sequence[str] = (), sets: Sequence[str] = ()) -> None:
    """Raise one LockError for all variants whose lock is missing, was made from other requirements, or was changed.

    `globs` and `sets` are how the user asked for them: with --set, the identifiers may be in no file.
    """
    reasons = {variant.id: reason for variant in variants if (reason := explain_staleness(tree, variant))}
    if reasons:
        words = [*(globs or ["*"]), *(word for text in sets for word in ("--set", text))] if sets else list(reasons)
        remedy = f"dlc lock {shlex.join(words)}"
        raise LockError("\n".join(f"{name}: {reason}" for name, reason in reasons.items()), remedy)


def explain_staleness(tree: Tree, variant: Variant) -> str:
    """Return the reason why the lock may not be used, or an empty text."""
    folder = variant.lock_folder
    present = files_below(tree, folder)
    if not present:
        return f"{folder}: no lock"
    texts: dict[str, str] = {}
    recorded: dict[str, str] = {}
    for name in (*FILES, *([ADDED] if is_thin(tree, variant) else [])):
        if name not in present:
            return f"{folder}/{name}: expected this file, found none"
        first, platform, recorded[name], texts[name] = [
            *_read_text(tree, f"{folder}/{name}").split("\n", 3),
            "",
            "",
            "",
        ][:4]
        if first.endswith("\r"):
            # `dlc lock` would cure it until the next checkout.
            return f"{folder}/{name}: expected lines that end with LF, found CRLF: git config core.autocrlf input"
        if first != INPUT + variant.lock_digest():
            return f"{folder}/{name}:1: stale: {_explain_other_request(tree, variant, first)}"
        if platform != FOR + variant.settings.platform:
            return f"{folder}/{name}:2: stale: expected {FOR + variant.settings.platform!r}, found {platform[:100]!r}"
    return (
        _explain_mixture(folder, texts, recorded)
        or _explain_other_release(tree, variant, texts)
        or _explain_broken_rule(variant, texts)
    )


def _explain_other_request(tree: Tree, variant: Variant, first: str) -> str:
    """Tell what the buildspec asks for and the lock does not have. `first` is the first line of one of its files."""
    if not first.startswith(INPUT):
        return f"expected {INPUT + 'sha256:...'!r}, found {first[:100]!r}"
    locked = locked_versions(tree, variant)
    lacking = []
    for requirement in (*variant.framework_requirements, *variant.training_requirements):
        found = locked.get(normal_name(requirement))
        if found is None or not is_satisfied(requirement, found):
            lacking.append(f"{requirement}, found {found or 'none'}")
    more = f" and {len(lacking) - MOST_NAMED} more" if len(lacking) > MOST_NAMED else ""
    if not lacking:
        return "made when the buildspec asked for more packages, or for another Python, suite or index"
    return f"the buildspec asks for {'; '.join(lacking[:MOST_NAMED])}{more}"


def _explain_other_release(tree: Tree, variant: Variant, texts: Mapping[str, str]) -> str:
    """Name the first file that is not the released image's, in a lock that only adds to it."""
    if variant.base is None or not is_thin(tree, variant):
        return ""
    released = read_entries(tree, variant.base)
    for name in FILES:
        if texts[name] != released.get(name, ""):
            place = f"{variant.base.lock_folder}/{name}"
            return f"{variant.lock_folder}/{name}: stale: expected the entries of {place}, found others"
    return ""


def _explain_mixture(folder: str, texts: Mapping[str, str], recorded: Mapping[str, str]) -> str:
    """Return the reason why these files are no lock of one run, or an empty text.

    `recorded`: file -> what it says of all.
    """
    expected = CONTENT + _hash_entries(texts)
    if set(recorded.values()) == {expected}:
        return ""
    runs: dict[str, list[str]] = {}
    for name, found in recorded.items():
        runs.setdefault(found, []).append(name)
    if len(runs) > 1:
        return f"{folder}: written by two runs of dlc lock: {' but '.join(', '.join(names) for names in runs.values())}"
    return f"{folder}: an entry was changed by hand: git diff {folder} shows it where the lock is committed"


def _explain_broken_rule(variant: Variant, texts: Mapping[str, str]) -> str:
    """Name the first version in these lock files that a rule of compat.yml does not allow.

    The file was made before the rule.
    """
    limits = {limit: normal_name(limit) for limit in variant.constraints}
    for file in texts:
        found = parse_versions(texts[file])
        for limit, name in limits.items():
            if name in found and not satisfies(found[name], limit.removeprefix(name)):
                place = f"{variant.lock_folder}/{file}"
                return f"{place}: stale: expected {limit} (a rule of the released images), found {name}=={found[name]}"
    return ""


def _read_text(tree: Tree, path: str) -> str:
    return _decode(tree[path].data) if path in tree else ""


def _decode(data: bytes) -> str:
    """Return a lock file as text. Invalid UTF-8 means that the file is damaged: the lock counts as stale."""
    return data.decode(errors="replace")


def _hash_entries(texts: Mapping[str, str]) -> str:
    """Return `sha256:...` of all entries of a lock."""
    total = hashlib.sha256()
    for name in _list_names(texts):
        data = texts[name].encode()
        total.update(f"{name} {len(data)}\n".encode() + data)
    return f"sha256:{total.hexdigest()}"


def find_conflicts(versions: Mapping[str, str]) -> list[tuple[str, dict[str, str]]]:
    """Find the conflicts of a resolution: what was expected, and the packages (name -> what it is) that break it.

    Of each kind only the first package by name.
    """
    majors = {name: f"CUDA {major}" for name in sorted(versions) if (major := cuda_major(name, versions[name]))}
    frameworks = {name: name for names in FRAMEWORKS.values() for name in names if name in versions}
    found = [("one CUDA major", _pick_firsts(majors)), ("one framework", frameworks)]
    return [(expected, packages) for expected, packages in found if len(packages) > 1]


def cuda_major(name: str, version: str) -> str:
    """Return the CUDA major that a package belongs to, as in `12`; empty if it belongs to no CUDA."""
    if match := SUFFIXED.search(name):
        return match[1] or match[2]
    if match := LOCAL.search(version):
        return match[1]
    return version.partition(".")[0] if VERSIONED.match(name) else ""


def cuda_version(versions: Mapping[str, str]) -> tuple[str, str]:
    """Return CUDA's version in these packages, as in `cu128`, and the package that says so; or two empty texts."""
    if TENSORFLOW_CPU in versions:
        return cuda_efa.CPU, TENSORFLOW_CPU
    for name in sorted(versions):
        if RUNTIME.match(name):
            major, minor = [*versions[name].split("."), "0"][:2]
            return f"cu{major}{minor}", name
    for name in sorted(versions):
        if match := re.search(r"\+(cu\d+|cpu)$", versions[name]):
            return match[1], name
    return "", ""


def explain_other_cuda(device: str, versions: Mapping[str, str]) -> str:
    """Tell what is wrong if the packages are for another CUDA version than the device; empty if nothing is known."""
    found, name = cuda_version(versions)
    if not device or not found or found == device:
        return ""
    return f"expected packages for device {device}, found {name}=={versions[name]}, which is for {found}"


def find_chain(
    name: str, required_by: Mapping[str, Sequence[str]], starts: Collection[str] | None = None
) -> list[str]:  # fmt: skip
    """Find the shortest chain of requirements from the buildspec to a package; the package is last.

    `starts`: packages with which the chain begins, if there is a chain.
    """
    chains = deque([[name]])
    seen = {name}
    while chains:
        shortest = chains.popleft()
        parents = [parent for parent in required_by.get(shortest[0], ()) if starts is None or parent != BUILDSPEC]
        if shortest[0] in starts if starts is not None else BUILDSPEC in parents or not parents:
            return shortest
        chains.extend([parent, *shortest] for parent in parents if parent not in seen)
        seen.update(parents)
    return [name]


def parse_requirers(annotated: str) -> dict[str, list[str]]:
    """Map each package to what requires it (package names, or BUILDSPEC), from uv's annotated resolution."""
    return {
        normal_name(name): [_parse_requirer(source) for source in sources.split(", ") if not source.startswith("-c")]
        for name, sources in REQUIRED_BY.findall(annotated)
    }


def _parse_requirer(words: str) -> str:
    """Return a package's name; BUILDSPEC for `-r -` and `buildspec (pyproject.toml)`."""
    return BUILDSPEC if words.startswith("-r") or words.endswith("pyproject.toml)") else normal_name(words)


def require_sound(tree: Tree, variants: Iterable[Variant]) -> None:
    """Raise a LockError for all committed locks with a conflict; `dlc lock` shows the chains of requirements."""
    lines = []
    broken: dict[str, None] = {}
    for variant in variants:
        versions = locked_versions(tree, variant)
        if wrong := explain_other_cuda(variant.settings.device, versions):
            lines.append(f"{variant.lock_folder}: {wrong}")
            broken[variant.id] = None
        for expected, packages in find_conflicts(versions):
            found = " and ".join(f"{name}=={versions[name]}{_kind_of(name, what)}" for name, what in packages.items())
            lines.append(f"{variant.lock_folder}: expected {expected}, found {found}")
            broken[variant.id] = None
    if lines:
        raise LockError("\n".join(lines), f"dlc lock {' '.join(broken)} shows what requires them")


def conflict_error(versions: Mapping[str, str], required_by: Mapping[str, Sequence[str]]) -> LockError | None:
    """Return the error for a resolution with conflicts. It has the chain of requirements of each.

    None without conflicts.
    """
    lines = []
    for expected, packages in find_conflicts(versions):
        chains = [
            f"  {' -> '.join(f'{step}=={versions[step]}' for step in find_chain(name, required_by))}"
            f"{_kind_of(name, what)}"
            for name, what in packages.items()
        ]
        lines += [f"expected {expected}, found:", *chains]
    if not lines:
        return None
    return LockError("\n".join(lines), "drop or replace the first requirement of one of these chains in the buildspec")


def _pick_firsts(kinds: Mapping[str, str]) -> dict[str, str]:
    """Pick one name of each kind."""
    found: dict[str, str] = {}
    for name, kind in kinds.items():
        if kind not in found.values():
            found[name] = kind
    return found


def _kind_of(name: str, what: str) -> str:
    return "" if what == name else f" ({what})"
