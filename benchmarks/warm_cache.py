"""An image's layers built anew from warm package caches, against installing its locks into a bare folder and one copy.

The build is `dlc build`'s own bake file with other blanks between the system's packages, and one more file among the
scripts that finish a layer. So the steps of all layers run anew (`no-cache` would also empty the folders where apt and
uv keep what they fetched). What is compiled stays cached, and so do the base and those folders.
The floor installs the locked wheels with the same uv, with the same options, from a warm cache too, and copies the
result once: an image is written as it is installed and once more as it is stored. Both sides start with what is cached
of packages on disk and, for root, nothing of it in memory; both end when everything is on disk. Peak of disk: three
times the image, of which BuildKit's cache keeps one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dlc.buildspec.matrix import load_variants
from dlc.buildspec.variant import Variant
from dlc.core.checkout import find_root, read_tree
from dlc.core.environment import INDEX_VARIABLES, cache_folder
from dlc.core.process import run_program
from dlc.debian.suites import find_suite
from dlc.engine import images
from dlc.engine.connection import connect
from dlc.engine.docker_client import Engine
from dlc.image_build import bake_file, buildx, host_inputs
from dlc.image_build.bake_file import HostInputs
from dlc.image_build.buildkit_log import Step
from dlc.image_build.one_dockerfile import WHEELS
from dlc.plan.contexts import Host, Repo
from dlc.plan.plan import Plan, make_plan
from dlc.plan.targets import SCRIPTS

OF_PYTHON = ("cuda", "framework", "training")
LAYER_STAGES = (*OF_PYTHON, "system", "network", "operating-system", "library", "launcher", "image")
LOCKS = ("cuda.txt", "framework.txt", "training.txt")  # the wheels; what is compiled is a thousandth of an image
REPOSITORY = "dlc-bench"  # names of ours, so that the real image stays what it is
# What uv says of a file that is worth a word (from 1 MiB on): the package cache was not warm.
FETCHED = re.compile(r"^#\d+ [\d.]+ Downloading \S+ \(", re.MULTILINE)
EXPORT_PART = re.compile(r"^#\d+ (exporting layers|unpacking)\b.*? ([\d.]+)s done$", re.MULTILINE)
PAGE_CACHE = Path("/proc/sys/vm/drop_caches")
INSTALL_SECONDS = 3600.0


@dataclass(frozen=True)
class WarmBuild:
    """All in seconds; steps with their names in the order in which they ended, then the parts of the last, and sync."""

    image: str
    seconds: float
    steps: tuple[tuple[float, str], ...]
    install_seconds: float
    copy_seconds: float
    installed_bytes: int
    empty_page_cache: bool  # whether both sides began with one

    @property
    def floor_seconds(self) -> float:
        """What cannot be saved: every byte installed, and written a second time."""
        return self.install_seconds + self.copy_seconds


def measure(identifier: str) -> WarmBuild:
    """The floor, then the build. Raises as `dlc build` does, and ProcessError where the floor fails."""
    root = find_root()
    tree = read_tree(root)
    [variant] = load_variants(tree, [identifier])
    plan = make_plan(tree, [identifier], [f"repository={REPOSITORY}"])
    engine, inputs = connect(), host_inputs.collect(plan, tree, cache_folder())
    with tempfile.TemporaryDirectory(prefix="bench-", dir=cache_folder()) as name:
        folder = Path(name)
        install, copy, size = floor(variant, inputs, folder)
        seconds, steps = rebuild(plan, engine, inputs, folder)
    return WarmBuild(variant.id, seconds, steps, install, copy, size, os.access(PAGE_CACHE, os.W_OK))


def floor(variant: Variant, inputs: HostInputs, folder: Path) -> tuple[float, float, int]:
    """Seconds of an installation from a warm cache, seconds of a copy of it, and its bytes."""
    installed, copied, cache = folder / "installed", folder / "copied", folder / "uv"
    argv = install_command(variant, inputs, installed)
    environment = {**index(), "UV_CACHE_DIR": str(cache), "UV_LINK_MODE": "copy", "UV_NO_CONFIG": "1"}
    run_program(argv, env=environment, timeout=INSTALL_SECONDS)
    shutil.rmtree(installed)
    empty_page_cache()
    install = written(argv, environment)
    shutil.rmtree(cache)
    os.sync()
    copy = written(["cp", "-a", str(installed), str(copied)], {})
    size = sum(path.stat().st_size for path in copied.rglob("*") if path.is_file() and not path.is_symlink())
    shutil.rmtree(installed)
    shutil.rmtree(copied)
    return install, copy, size


def install_command(variant: Variant, inputs: HostInputs, target: Path) -> list[str]:
    """As docker/scripts/python-packages/install.sh does it, for the image's Python, which this host need not have."""
    [uv] = [folder for context, folder in inputs.contexts.items() if isinstance(context, Host) and context.name == "uv"]
    argv = [str(uv / "uv"), "pip", "install", "--quiet", "--no-deps", "--no-build"]
    argv += ["--no-installer-metadata", "--require-hashes", "--find-links", str(inputs.contexts[WHEELS])]
    argv += ["--target", str(target), "--python-version", variant.settings.python]
    argv += ["--python-platform", f"x86_64-manylinux_{find_suite(variant.suite).glibc.replace('.', '_')}"]
    for name in LOCKS:
        argv += ["-r", str(inputs.contexts[Repo(variant.lock_folder)] / name)]
    return argv


def index() -> dict[str, str]:
    """The user's package index as uv's variables, as a build gets it."""
    secrets = {"UV_DEFAULT_INDEX": "index_url", "UV_INDEX": "extra_index_url"}
    found = {
        variable: [os.environ[name] for name in INDEX_VARIABLES[secret] if os.environ.get(name)]
        for variable, secret in secrets.items()
    }
    return {variable: values[0] for variable, values in found.items() if values}


def rebuild(
    plan: Plan, engine: Engine, inputs: HostInputs, folder: Path
) -> tuple[float, tuple[tuple[float, str], ...]]:
    """Seconds of the build and of its steps. A first try that found a cache cold has warmed it: once more."""
    revision, epoch = buildx.read_revision(find_root())
    scripts = folder / "scripts"
    shutil.copytree(inputs.contexts[SCRIPTS], scripts)
    inputs = replace(inputs, contexts={**inputs.contexts, SCRIPTS: scripts})
    file: dict[str, Any] = bake_file.render(
        plan, inputs, output=buildx.choose_exporter(engine), epoch=epoch, revision=revision
    )
    [identifier] = plan.selected
    image = file["target"][bake_file.bake_name(identifier)]
    output = image.pop("output")
    buildx.run_bake(json.dumps(file), engine, folder / "warm.log", lambda _: None)  # nothing is exported
    image["output"] = output
    refs = plan.target(identifier).tags
    packages = image["args"]["OS_PACKAGES"]
    try:
        for attempt in range(2):
            (scripts / "finish/attempt").write_text(str(time.time_ns()))
            image["args"]["OS_PACKAGES"] = packages + blanks(time.time_ns())
            steps: list[Step] = []
            log = folder / f"build-{attempt}.log"
            empty_page_cache()
            start = time.perf_counter()
            with images.remove_replaced(engine, refs):
                buildx.run_bake(json.dumps(file), engine, log, steps.append)
            built = time.perf_counter()
            os.sync()
            seconds = time.perf_counter() - start
            if not FETCHED.search(log.read_text()) and not any(map(was_cold, steps)):
                break
    finally:
        run_program(["docker", "image", "rm", "--force", *refs], env=engine.environment, check=False)
    return seconds, (*shown(steps, log.read_text()), (start + seconds - built, "sync"))


def blanks(number: int) -> str:
    """A number written in blanks, spaces for its zeros and tabs for its ones: the same to a shell, not to BuildKit."""
    return f"{number:b}".replace("0", " ").replace("1", "\t")


def was_cold(step: Step) -> bool:
    """Whether a step ran that should have been cached: an engine whose cache is full throws away what it pleases."""
    ran = step.command.startswith("RUN") and step.seconds >= 1.0
    return ran and step.name.split()[-2] not in LAYER_STAGES  # as in `pytorch-2_15-training-cu132-py313 system 1/1`


def shown(steps: list[Step], log: str) -> tuple[tuple[float, str], ...]:
    """Seconds and name of each step that took a second, and of the two parts of the export."""
    parts = [(float(seconds), f"of which {name}") for name, seconds in EXPORT_PART.findall(log)]
    return (*((s.seconds, name(s)) for s in steps if s.seconds >= 1.0), *parts)


def name(step: Step) -> str:
    """The stage, or what BuildKit does for the whole image."""
    return step.command if step.command.startswith("exporting") else step.name


def written(argv: list[str], environment: dict[str, str]) -> float:
    """Seconds of a command until what it wrote is on disk."""
    start = time.perf_counter()
    run_program(argv, env=environment, timeout=INSTALL_SECONDS)
    os.sync()
    return time.perf_counter() - start


def empty_page_cache() -> None:
    """Write out everything and, for root, forget what was read."""
    os.sync()
    if os.access(PAGE_CACHE, os.W_OK):
        PAGE_CACHE.write_text("3")
