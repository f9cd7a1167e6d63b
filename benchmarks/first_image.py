"""Times a first own image: from `dlc init` with one package to a script that has trained in it, and what a push sends.

usage: python benchmarks/first_image.py [--image ID] [--package NAME==VERSION] [--turns N]

In turns with plain docker: `FROM` the released image, `pip install` of the same version, the same script. The released
image is in the engine, and in the registry on loopback by the same client's push. Steps that install the package run in
every turn; what installers have fetched before is there. Needs the released image (`dlc build ID`); ends with 1 if a
bound does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from dlc.buildspec import selection
from dlc.buildspec.matrix import load_variants
from dlc.core.checkout import find_root, read_tree
from dlc.core.environment import find_ca_bundle, read_proxies
from dlc.core.process import run_program
from dlc.engine.connection import connect
from dlc.engine.docker_client import Engine

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from harness.registry import Registry  # the tests' registry, from Debian's packages

DLC = (sys.executable, "-m", "dlc")
NAME = "first-image"
# The step of a thin layer, as BuildKit describes it.
STEP = "/lock/added.txt"
BOUNDS = {"all": 60.0, "build": 25.0, "share": 1.2}
STEP_SECONDS = 1800.0
MOST_MANIFEST_BYTES = 4 << 20
DOCKERFILE = """\
FROM {ref}
RUN {mount}pip install --no-cache-dir --quiet {package}
COPY train.py /opt/first/train.py
"""


@dataclass(frozen=True)
class Turn:
    """Seconds of all and of building, and bytes that the registry did not have before."""

    all: float
    build: float
    sent: int
    # Of the bill of materials, which dlc attaches to every image.
    bill: int = 0


class Host:
    """The engine, the registry beside it, and the environment that programs get."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        self.registry = Registry(folder / "registry")
        self.registry.start()
        # Blobs that are there before the first turn.
        self.released: frozenset[str] = frozenset()
        self.environment = {**os.environ, **engine.environment, **self.registry.login(folder / "docker")}

    def run(self, *argv: str, cwd: Path | None = None) -> tuple[float, str]:
        """Run a program, which must end with 0; return seconds and its stdout."""
        start = time.perf_counter()
        done = subprocess.run(argv, cwd=cwd or self.folder, env=self.environment, capture_output=True, text=True,
                              timeout=STEP_SECONDS, check=False)  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{' '.join(argv)}: ended with {done.returncode}\n{done.stdout}{done.stderr}")
        seconds = time.perf_counter() - start
        print(f"{seconds:7.1f} s  {shlex.join(argv)[-100:]}", file=sys.stderr, flush=True)
        return seconds, done.stdout

    def blobs(self) -> dict[str, Path]:
        """Map the digests of all that the registry has to its files."""
        found = (self.folder / "registry/data").glob("docker/registry/v2/blobs/sha256/*/*/data")
        return {f"sha256:{path.parent.name}": path for path in found}


def time_dlc(host: Host, image: str, package: str, folder: Path) -> Turn:
    """Make a project, build, train, then push."""
    start, _ = host.run(*DLC, "init", str(folder), "--name", NAME, "--from", image, "--package", package)
    build, _ = host.run(*DLC, "build", cwd=folder)
    train, said = host.run(*DLC, "run", cwd=folder)
    require_trained(said)
    _, said = host.run(*DLC, "push", f"{image}-{NAME}", "--to", f"{host.registry.host}/dlc", "--no-scan", "--json",
                       cwd=folder)  # fmt: skip
    # An image of an earlier turn has the same digests: what is new is what the released images have not.
    new = {digest: path for digest, path in host.blobs().items() if digest not in host.released}
    digest = json.loads(said)[0]["digest"]
    manifest = json.loads(new[digest].read_bytes())
    parts = {digest, manifest["config"]["digest"], *(layer["digest"] for layer in manifest["layers"])} & new.keys()
    bill = sum(new[name].stat().st_size for name in find_attached(new, digest) - parts)
    return Turn(start + build + train, build, sum(new[name].stat().st_size for name in parts), bill)


def find_attached(blobs: Mapping[str, Path], digest: str) -> set[str]:
    """Return the digests of the documents that are attached to an image: manifests that name it, and their parts."""
    found: set[str] = set()
    for name, path in blobs.items():
        if path.stat().st_size < MOST_MANIFEST_BYTES and f'"{digest}"' in path.read_text(errors="replace"):
            manifest = json.loads(path.read_bytes())
            found |= {name, *(layer["digest"] for layer in manifest.get("layers", []))} & blobs.keys()
    return found


def time_docker(host: Host, ref: str, package: str, folder: Path) -> Turn:
    """Do the same with a Dockerfile that begins with the released image."""
    folder.mkdir()
    shutil.copy(find_root() / "examples/pytorch/train.py", folder)
    bundle = find_ca_bundle(os.environ)
    mount = "--mount=type=secret,id=ca PIP_CERT=/run/secrets/ca " if bundle else ""
    (folder / "Dockerfile").write_text(DOCKERFILE.format(ref=ref, mount=mount, package=package))
    words = [word for name in read_proxies(os.environ) for word in ("--build-arg", name)]
    words += ["--secret", f"id=ca,src={bundle}"] if bundle else []
    tag = f"{host.registry.host}/docker/{NAME}:1"
    build, _ = host.run("docker", "build", "--quiet", "--no-cache", *words, "--tag", tag, ".", cwd=folder)
    train, said = host.run("docker", "run", "--rm", "--shm-size", "2g", tag, "python", "/opt/first/train.py")
    require_trained(said)
    before = host.blobs()
    host.run("docker", "push", "--quiet", tag)
    sent = sum(path.stat().st_size for digest, path in host.blobs().items() if digest not in before)
    host.run("docker", "image", "rm", tag)
    return Turn(build + train, build, sent)


def require_trained(said: str) -> None:
    """End the benchmark if the script did not train."""
    if "done: accuracy=" not in said:
        raise SystemExit(f"expected a script that trains, found:\n{said}")


def forget_step(host: Host) -> None:
    """Take the step that installs the package out of the engine's build cache, and nothing else."""
    _, said = host.run("docker", "buildx", "du", "--verbose")
    for record in said.split("\n\n"):
        if STEP in record and (found := re.search(r"^ID:\s+(\S+)", record, re.MULTILINE)):
            host.run("docker", "buildx", "prune", "--force", "--all", "--filter", f"id={found[1]}")


def measure_wheels(host: Host, project: Path) -> int:
    """Return the bytes of the wheels that the project adds."""
    [lock] = project.glob("locks/*/added.txt")
    folder = host.folder / "wheels"
    argv = (
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--require-hashes",
    )
    host.run(*argv, "--requirement", str(lock), "--dest", str(folder))
    return sum(path.stat().st_size for path in folder.iterdir())


def push_released(host: Host, image: str, ref: str) -> None:
    """Push the released image by both clients: their layers are compressed in two ways."""
    host.run(*DLC, "push", image, "--to", f"{host.registry.host}/dlc", "--no-scan", cwd=find_root())
    tag = f"{host.registry.host}/docker/released:1"
    host.run("docker", "tag", ref, tag)
    host.run("docker", "push", "--quiet", tag)
    host.run("docker", "image", "rm", tag)
    host.released = frozenset(host.blobs())


def print_table(turns: Mapping[str, Sequence[Turn]], wheels: int) -> dict[str, float]:
    """Print a row for each figure of each way, with least, median and greatest; return dlc's medians."""
    rows: dict[str, tuple[str, Callable[[Turn], float]]] = {
        "all": ("to a trained own script, s", attrgetter("all")),
        "build": ("of it building, s", attrgetter("build")),
        "share": ("pushed bytes / bytes of the added wheels", lambda turn: turn.sent / wheels),
    }
    print("| what | way | min | median | max | bound |\n|---|---|---|---|---|---|")
    for key, (what, read) in rows.items():
        for way, found in turns.items():
            values = sorted(map(read, found))
            bound = f"{BOUNDS[key]:g}" if way == "dlc" else ""
            print(
                f"| {what} | {way} | {values[0]:.2f} | {statistics.median(values):.2f} | {values[-1]:.2f} | {bound} |"
            )
    bills = sorted(turn.bill for turn in turns["dlc"])
    print(f"\nwheels: {wheels} bytes; the bill of materials that dlc attaches besides: {bills[-1]} bytes")
    return {key: statistics.median(read(turn) for turn in turns["dlc"]) for key, (_, read) in rows.items()}


def main() -> int:
    """Take the turns, print the table, compare with the bounds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--image", default="pytorch-2.13-training-cpu-py311")
    parser.add_argument("--package", default="einops==0.8.2")
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    ref, _ = selection.find_image(arguments.image, load_variants(read_tree(find_root())))
    turns: dict[str, list[Turn]] = {"dlc": [], "docker FROM + pip": []}
    with tempfile.TemporaryDirectory(prefix="dlc-bench-") as name:
        host = Host(connect(), Path(name))
        own = ""
        try:
            push_released(host, arguments.image, ref)
            for number in range(arguments.turns):
                project = host.folder / f"dlc-{number}"
                forget_step(host)
                turns["dlc"].append(time_dlc(host, arguments.image, arguments.package, project))
                own = host.run(*DLC, "show", "--ref", cwd=project)[1].strip()
                host.run("docker", "image", "rm", "--force", own)
                turns["docker FROM + pip"].append(
                    time_docker(host, ref, arguments.package, host.folder / f"docker-{number}")
                )
                shutil.rmtree(host.folder / "registry/data/docker/registry/v2/repositories/docker" / NAME)
            wheels = measure_wheels(host, host.folder / "dlc-0")
        finally:
            host.registry.kill()
            if own:
                run_program(["docker", "image", "rm", "--force", own], env=host.environment, check=False)
    found = print_table(turns, wheels)
    missed = [
        f"{key}: {found[key]:.2f}, expected at most {bound:g}" for key, bound in BOUNDS.items() if found[key] > bound
    ]
    print("\n".join(f"MISSED {line}" for line in missed) or "all bounds hold")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
