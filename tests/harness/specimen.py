"""A small repository as a value, for tests that need a buildspec, Dockerfiles and locks of known content."""

from __future__ import annotations

from pathlib import Path

from dlc.buildspec.lockfile import ADDED, FILES, INPUT, read_entries, with_headers
from dlc.buildspec.matrix import load_variants
from dlc.core.checkout import SourceFile, Tree, read_text
from dlc.core.platforms import ANY_PLATFORM
from dlc.plan.targets import UV_LOCK

DEFAULTS = """\
repository: dlc
device: cpu
python: "3.11"
suites: {"3.9": bullseye, "3.11": bookworm, "3.13": trixie}
base:
  image: ""
  os_packages: [ca-certificates, tini]
os_packages: []
build_packages: [gcc]
packages:
  framework: []
  training: [transformers, numpy]
  source: []
  compiled: []
  provides: {}
efa: {source: none, version: "", url: "", sha256: "", os_packages: [libfabric1]}
cuda_compat: {url: "", sha256: ""}
budget: {gigabytes: "4", why: enough for a specimen}
labels: {org.opencontainers.image.licenses: Apache-2.0}
env: {}
"""
PINS = """\
packages:
  numpy: 2.4.6
  transformers: 5.23.0
"""
COMPAT = """\
rules:
  - when: {python: "==3.9"}
    then: {suite: bullseye}
    why: Python 3.9 is in bullseye only
  - when: {framework: pytorch, version: ">=2.9"}
    then: {python: ">=3.10"}
    why: its wheels start there
  - when: {packages: {torch: "<2.3"}}
    then: {packages: {numpy: "<2"}}
    why: it was compiled for NumPy 1
"""
PYTORCH = """\
framework: pytorch
version: "2.13"
job: training
os_packages: [g++]
variants:
  - packages: {framework: [torch==2.13.0+cpu]}
"""
TENSORFLOW = """\
framework: tensorflow
version: "2.21"
job: training
variants:
  - packages: {framework: [tensorflow-cpu==2.21.0]}
"""
SHARED_RECIPE = """\
FROM rootfs AS base
ARG PYTHON_VERSION
RUN --mount=type=secret,id=index_url --mount=type=secret,id=netrc /scripts/venv.sh "${PYTHON_VERSION}"
FROM training AS image
"""
RECIPE = "FROM scratch AS framework\nFROM framework AS training\n"
PYTORCH_PATH = "buildspec/pytorch/2.13-training.yml"
# All that the images name, so that apt is not asked for it.
RECORDED = "ca-certificates=1\ng++=1\nlibc6=2.36-9\ntini=1\n"
TORCH_ID = "pytorch-2.13-training-cpu-py311"
TENSORFLOW_ID = "tensorflow-2.21-training-cpu-py311"
TEXTS = {
    "buildspec/defaults.yml": DEFAULTS,
    "buildspec/pins.yml": PINS,
    "buildspec/compat.yml": COMPAT,
    PYTORCH_PATH: PYTORCH,
    "buildspec/tensorflow/2.21-training.yml": TENSORFLOW,
    "docker/base/Dockerfile": SHARED_RECIPE,
    "docker/pytorch/Dockerfile": RECIPE,
    "docker/tensorflow/Dockerfile": RECIPE,
    "docker/project/Dockerfile": "FROM released AS added-system\nFROM with-system AS added-packages\n",
    "docker/scripts/install.sh": "#!/bin/sh\n",
    UV_LOCK: "uv==VERSION \\\n    --hash=sha256:00\n",
    **{f"docker/debian/{suite}/versions.txt": RECORDED for suite in ("bullseye", "bookworm", "trixie")},
    "src/entrypoint/launcher.py": "print('launched')\n",
    "src/dlc_runtime/__init__.py": "",
    "src/dlc_channel/__init__.py": "",
}


def unlocked() -> dict[str, SourceFile]:
    """The specimen without locks."""
    return {path: SourceFile(text.encode()) for path, text in TEXTS.items()}


def changed(tree: Tree, path: str, text: str) -> Tree:
    """The same tree with one file written anew."""
    return {**tree, path: SourceFile(text.encode())}


def write_tree(tree: Tree, folder: Path) -> None:
    """Write sources as files below a folder."""
    for path, file in tree.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(file.data)


def locked(tree: Tree) -> Tree:
    """The tree with fresh locks for every variant: what was asked for, and nothing it would bring along."""
    files = dict(tree)
    for variant in load_variants(tree, platform=ANY_PLATFORM):
        lists = {"framework.txt": variant.framework_requirements, "training.txt": variant.training_requirements}
        texts = {name: "".join(f"{pin} \\\n    --hash=sha256:00\n" for pin in lists.get(name, ())) for name in FILES}
        for name, content in with_headers(variant.lock_digest(), texts, variant.settings.platform).items():
            files[f"{variant.lock_folder}/{name}"] = SourceFile(content.encode())
    return files


def thin(tree: Tree, added: str = "") -> Tree:
    """The tree, whose project has a lock that adds these entries to the released one."""
    own = load_variants(tree)[-1]
    assert own.base is not None
    texts = {**read_entries(tree, own.base), ADDED: added}
    lock = with_headers(own.lock_digest(), texts, own.settings.platform)
    return {**tree, **{f"{own.lock_folder}/{name}": SourceFile(text.encode()) for name, text in lock.items()}}


def pinned(tree: Tree, folder: str, name: str, entries: str) -> Tree:
    """The tree with these entries in one file of a lock, as if `dlc lock` had written them."""
    lines = {each: read_text(tree, f"{folder}/{each}").splitlines(keepends=True) for each in FILES}
    texts = {each: "".join(line for line in lines[each] if not line.startswith("# dlc-lock-")) for each in FILES}
    digest = lines[name][0].removeprefix(INPUT).rstrip()
    written = with_headers(digest, {**texts, name: entries})
    return {**tree, **{f"{folder}/{each}": SourceFile(content.encode()) for each, content in written.items()}}


def specimen() -> Tree:
    """The whole repository, locks fresh."""
    return locked(unlocked())
