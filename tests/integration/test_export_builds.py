"""`docker build` alone builds an exported folder: the image passes its tests, its layers are those of `dlc build`."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from dlc.core import labels
from dlc.core.checkout import find_root, read_tree
from dlc.core.environment import cache_folder, find_ca_bundle, find_secrets, local_wheel_folders, read_proxies
from dlc.debian import rootfs, suites
from dlc.image_build.host_inputs import derive_time
from harness import toy
from harness.engine import connect, docker
from harness.images import Image
from harness.installed import TOOLS

SECONDS = 5400  # of a build without any step in the cache; only a hang takes that long
pytestmark = [pytest.mark.integration, pytest.mark.timeout(2 * SECONDS)]

DEBIAN = "dlc-test-debian:bookworm"
REPOSITORY = "dlc-exported"
# Of an image for the CPU: the folders in which the installer's system is mounted, the framework, the packages above it.
SKELETON, FRAMEWORK, TRAINING = 0, 1, 2


@pytest.fixture(scope="module")
def debian(engine: None) -> Iterator[str]:
    """A Debian to begin from, where no registry can be asked for one: the base file system that this host makes."""
    tree, cache = read_tree(find_root()), cache_folder()
    made = rootfs.make_rootfs("bookworm", suites.read_recorded(tree, "bookworm"), cache)
    docker("import", str(made / "rootfs.tar"), DEBIAN)
    yield DEBIAN
    docker("image", "rm", "--force", DEBIAN, check=False)


@pytest.fixture
def client(tmp_path: Path) -> dict[str, str]:
    """An environment with docker and its plug-ins, and with nothing else: no Python, no dlc, no git, no shell."""
    programs = tmp_path / "programs"
    programs.mkdir()
    found = shutil.which("docker")
    assert found
    (programs / "docker").symlink_to(Path(found).resolve())
    return {"PATH": str(programs), "HOME": os.environ.get("HOME", "/"), "DOCKER_BUILDKIT": "1", **connect().environment}


def export(root: Path, word: str, folder: Path, *options: str) -> None:
    """Write the folder, and put into it what users of this host put there: its authorities and its own wheels."""
    done = toy.dlc(root, "export", word, str(folder), *options)
    assert done.returncode == 0, done.stderr
    if bundle := find_ca_bundle(os.environ):
        shutil.copy(bundle, folder / "own/ca/ca.pem")
    lock = "".join(path.read_text() for path in (folder / "locks").glob("indexes/*/*.txt"))
    for wheel in (path for own in local_wheel_folders() for path in own.glob("*.whl")):
        name, version = wheel.name.split("-")[:2]
        if f"{name}=={version}" in lock:
            shutil.copy(wheel, folder / "own/wheels")


def build(folder: Path, ref: str, client: Mapping[str, str], *options: str) -> None:
    """`docker build`, with the proxies and the package indexes of this host, as the folder's README says."""
    arguments = [word for name in read_proxies(os.environ) for word in ("--build-arg", name)]
    secrets = [
        word for name, source in find_secrets(os.environ).items() for word in ("--secret", f"id={name},{source}")
    ]
    values = {name: os.environ[name] for name in (*read_proxies(os.environ), *indexes()) if name in os.environ}
    docker_program = Path(client["PATH"]) / "docker"
    argv = [
        str(docker_program),
        "build",
        "--progress",
        "plain",
        *arguments,
        *secrets,
        *options,
        "--tag",
        ref,
        str(folder),
    ]
    done = subprocess.run(argv, env={**client, **values}, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-8000:]


def indexes() -> list[str]:
    """Variables that the secrets of this host are read from."""
    return [source.removeprefix("env=") for source in find_secrets(os.environ).values() if source.startswith("env=")]


def layers(ref: str) -> list[str]:
    """Diff ids of the layers, lowest first."""
    [found] = json.loads(docker("image", "inspect", ref).stdout)
    return list(found["RootFS"]["Layers"])


def layer_files(ref: str, number: int) -> dict[str, tuple[object, ...]]:
    """Name -> all that a layer says of a file, and the hash of its content.

    Docker's classic store writes a layer in the order of a walk, or sorted by whole names if it was restarted and has
    the layer below twice: the digest is then another one, the files are the same.
    """
    wanted = layers(ref)[number].removeprefix("sha256:")
    found: dict[str, tuple[object, ...]] = {}
    words = ["docker", "save", ref]
    with subprocess.Popen(words, env=connect().environment | os.environ, stdout=subprocess.PIPE) as saving:
        with tarfile.open(fileobj=saving.stdout, mode="r|") as image:
            for member in image:
                if not member.name.endswith(wanted):
                    continue
                with tarfile.open(fileobj=image.extractfile(member), mode="r|") as layer:
                    for entry in layer:
                        content = layer.extractfile(entry) if entry.isfile() else None
                        digest = hashlib.sha256(content.read()).hexdigest() if content else ""
                        facts = (entry.size, entry.mode, entry.uid, entry.gid, entry.mtime, entry.type, entry.linkname)
                        found[entry.name] = (*facts, *sorted(entry.pax_headers.items()), digest)
        assert saving.stdout
        while saving.stdout.read(1 << 20):
            pass
    return found


def configuration(ref: str) -> dict[str, object]:
    """What the image says of itself, without the dates and the commit of its sources."""
    [found] = json.loads(docker("image", "inspect", ref).stdout)
    config = dict(found["Config"])
    kept = {name: value for name, value in config["Labels"].items() if name not in (labels.CREATED, labels.REVISION)}
    return {name: config[name] for name in ("Env", "Entrypoint", "Cmd", "WorkingDir", "User")} | {"Labels": kept}


def test_the_base_file_system_holds_nothing_of_the_host_that_makes_it() -> None:
    tree = read_tree(find_root())
    made = rootfs.make_rootfs("bookworm", suites.read_recorded(tree, "bookworm"), cache_folder())
    with tarfile.open(made / "rootfs.tar") as archive:
        found = [archive.getmember(f"./etc/{name}") for name in suites.OF_THE_HOST]
    assert [(member.size, member.mode) for member in found] == [(0, 0o644), (0, 0o644)]


@pytest.mark.long
@pytest.mark.when(device="cpu")
def test_an_image_of_docker_build_alone_has_the_framework_of_dlc_build_and_passes_its_tests(
    image: Image, debian: str, client: dict[str, str], tmp_path: Path
) -> None:
    """Its tests ask for the image by its reference, which `dlc build`'s gives back afterwards."""
    folder, kept = tmp_path / "exported", f"{REPOSITORY}/kept:latest"
    export(find_root(), image.variant.id, folder)
    docker("tag", image.ref, kept)
    try:
        build(folder, image.ref, client, "--build-arg", f"DEBIAN_IMAGE={debian}")
        made, own = layers(image.ref), layers(kept)
        assert made[SKELETON] == own[SKELETON]
        for number in (FRAMEWORK, TRAINING):
            assert made[number] == own[number] or layer_files(image.ref, number) == layer_files(kept, number)
        assert len(made) == len(own)
        assert configuration(image.ref) == configuration(kept)
        # The dlc that ships takes pytest from an index, and its recipes from its wheel.
        argv = [TOOLS / "dlc", "test", image.variant.id]
        tested = subprocess.run(argv, cwd=find_root(), env=toy.environment(), capture_output=True, text=True,
                                timeout=SECONDS, check=False)  # fmt: skip
        assert tested.returncode == 0, tested.stdout[-8000:]
    finally:
        docker("tag", image.ref, f"{REPOSITORY}/made:latest")
        docker("tag", kept, image.ref)
        docker("image", "rm", f"{REPOSITORY}/made:latest", kept, check=False)


def test_a_small_image_is_the_same_whoever_copied_the_folder(
    debian: str, client: dict[str, str], tmp_path: Path
) -> None:
    """Neither the modes nor the times of a copy reach a layer: by umask 002, of today."""
    root, folder = tmp_path / "checkout", tmp_path / "exported"
    toy.make_checkout(root, REPOSITORY)
    ref = toy.ref(REPOSITORY)
    exported = f"{REPOSITORY}/exported:latest"
    try:
        built = toy.dlc(root, "build", "toy-*")
        assert built.returncode == 0, built.stderr
        export(root, "toy-*", folder)
        for path in folder.rglob("*"):
            path.chmod(path.stat().st_mode | 0o020)
            os.utime(path, (derive_time(b""), derive_time(b"")))
        build(folder, exported, client, "--build-arg", f"DEBIAN_IMAGE={debian}")
        assert layers(exported) == layers(ref)
        assert configuration(exported) == configuration(ref)
        ran = docker("run", "--rm", exported, "python", "-c", "import six, dlc_runtime; print('works')")
        assert ran.stdout == "works\n"
    finally:
        docker("image", "rm", "--force", ref, exported, check=False)


def test_a_base_image_and_bake_make_an_image_that_runs(debian: str, client: dict[str, str], tmp_path: Path) -> None:
    root, folder = tmp_path / "checkout", tmp_path / "exported"
    toy.make_checkout(root, REPOSITORY)
    ref = toy.changed_ref(root, f"base.image={debian}")
    try:
        export(root, "toy-*", folder, "--base-image", debian, "--bake")
        values = {name: os.environ[name] for name in (*read_proxies(os.environ), *indexes()) if name in os.environ}
        argv = [str(Path(client["PATH"]) / "docker"), "buildx", "bake", "--progress", "plain"]
        done = subprocess.run(argv, cwd=folder, env={**client, **values}, capture_output=True, text=True,
                              timeout=SECONDS, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr[-8000:]
        ran = docker("run", "--rm", ref, "python", "-c", "import six; print('works')")
        assert ran.stdout == "works\n"
    finally:
        docker("image", "rm", "--force", ref, check=False)
