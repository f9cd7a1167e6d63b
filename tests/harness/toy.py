"""A checkout with one more framework, of one small package, so that real builds of it are short; and dlc run in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dlc.buildspec.matrix import load_variants
from dlc.core.checkout import FOLDERS, find_root, read_tree
from harness.engine import connect, docker
from harness.installed import take_environment

ID = "toy-1.17-training-cpu-py311"
SPEC = """\
framework: toy
version: "1.17"
job: training
packages: {{framework: [{framework}], lists: [], training: [{training}], source: [], compiled: []}}
{system}
repository: {repository}
budget: {{gigabytes: "1.0", why: one small package}}
{settings}
variants:
  - {{device: cpu, python: "3.11"}}
"""
# Half a minute less than the whole one, in each build that has no cache.
SMALL_SYSTEM = """\
base: {os_packages: [ca-certificates, tini, python3]}
os_packages: []
build_packages: []"""
WITH_OPEN_MPI = """\
os_packages: []
build_packages: []"""
BUILD_SECONDS = 900  # only a hang takes that long
MOUNT = "--mount=type=bind,from=tools,source=/{0},target=/{0}"
TOOLS = " ".join(MOUNT.format(name) for name in ("usr", "bin", "lib", "lib64"))


def ref(repository: str) -> str:
    """The image's reference."""
    return f"{repository}/toy:1.17-training-cpu-py311"


def changed_ref(root: Path, *sets: str) -> str:
    """The reference of the checkout's image with these changes of `--set`."""
    (variant,) = load_variants(read_tree(root), ["toy-*"], sets)
    return variant.ref


def make_checkout(
    root: Path,
    repository: str,
    framework: str = "six==1.17.0",
    training: str = "",
    settings: str = "",
    system: str = SMALL_SYSTEM,
    **more: str,
) -> None:
    """Copy the sources and add a buildspec, a Dockerfile and a lock that dlc itself resolves, with `more` variables.

    `settings` and `system` are lines of the image file.
    """
    copy_sources(root)
    (root / "buildspec/toy").mkdir()
    (root / "buildspec/toy/1.17-training.yml").write_text(
        SPEC.format(repository=repository, framework=framework, training=training, settings=settings, system=system)
    )
    (root / "docker/toy").mkdir()
    shutil.copy(root / "docker/tensorflow/Dockerfile", root / "docker/toy/Dockerfile")
    locked = dlc(root, "lock", "toy-*", **more)
    assert locked.returncode == 0, locked.stderr


def copy_sources(root: Path) -> None:
    """What dlc reads of this checkout, without the locks of `--set` that somebody made in it."""
    for folder in FOLDERS:
        shutil.copytree(find_root() / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__", "*-set-*"))


@contextmanager
def checkout_for(device: str, folder: Path, repository: str, system: str = SMALL_SYSTEM) -> Iterator[Path]:
    """A checkout with a lock for `--set DEVICE` as well; then the images that were built of it are removed."""
    root = folder / "checkout"
    make_checkout(root, repository, system=system)
    locked = dlc(root, "lock", "toy-*", "--set", device)
    assert locked.returncode == 0, locked.stderr
    try:
        yield root
    finally:
        built = docker("image", "ls", "--quiet", "--filter", f"reference={repository}/toy").stdout.split()
        if built:
            docker("image", "rm", "--force", *built, check=False)


def step(words: str) -> str:
    """A further step of the image's own Dockerfile, whose last stage holds no system."""
    return f"RUN {TOOLS} {words}\n"


def command(*words: str) -> list[str]:
    """The command line that runs dlc: the one that ships."""
    return [str(take_environment() / "bin/dlc"), *words]


def environment(**more: str) -> dict[str, str]:
    """This process's environment with the engine under test, and more."""
    return {**os.environ, **connect().environment, **more}


def dlc(root: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run dlc in a checkout to its end, whatever the exit code."""
    settings = environment(**more)
    return subprocess.run(
        command(*words), cwd=root, env=settings, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
    )
