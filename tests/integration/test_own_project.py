"""A project from nothing to a tested image, by the installed dlc, in a folder outside every checkout."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import toy
from harness.engine import connect, docker, run_once
from harness.images import Image
from harness.installed import run_installed, take_environment

pytestmark = [
    pytest.mark.integration,
    pytest.mark.when(framework="pytorch", device="cpu"),
    pytest.mark.timeout(4 * toy.BUILD_SECONDS),
]
PACKAGE = "einops"
# Layers of an image for the CPU, lowest first: below the framework is the installer's system.
FRAMEWORK, TRAINING = 1, 2


class Project:
    """A folder of a user, and dlc from its wheel alone."""

    def __init__(self, command: Path, folder: Path) -> None:
        self.command, self.folder, self.ref = command, folder, ""

    def run(self, *words: str, inside: str = "") -> str:
        """Run dlc, which must end with 0; return what it printed."""
        settings = {**connect().environment, "DLC_CACHE_DIR": str(self.folder / "cache")}
        done = run_installed(self.command, self.folder / inside, *words, seconds=2 * toy.BUILD_SECONDS, **settings)
        assert done.returncode == 0, f"dlc {' '.join(words)}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def project(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project with one more package, built by two commands."""
    home = tmp_path_factory.mktemp("home")
    found = Project(take_environment() / "bin/dlc", home)
    found.run("init", "demo", "--from", image.variant.id, "--package", PACKAGE)
    found.ref = found.run("show", "--ref", inside="demo").strip()
    found.run("build", inside="demo")
    yield found
    docker("image", "rm", "--force", found.ref, check=False)


def test_the_image_has_the_package_and_the_folder_its_lock(image: Image, project: Project) -> None:
    [lock] = (project.folder / "demo/locks").glob("[!.]*")
    assert lock.name == f"{image.variant.id}-demo"
    assert f"\n{PACKAGE}==" in (lock / "training.txt").read_text()
    done = run_once(project.ref, "python", "-c", f"import {PACKAGE}, torch; print('fine')")
    assert done.stdout == "fine\n", done.stderr


def test_its_framework_is_the_released_layer_and_its_packages_are_its_own(image: Image, project: Project) -> None:
    [own] = json.loads(docker("image", "inspect", project.ref).stdout)
    theirs, ours = image.inspected["RootFS"]["Layers"], own["RootFS"]["Layers"]
    assert ours[: FRAMEWORK + 1] == theirs[: FRAMEWORK + 1]
    assert ours[TRAINING] != theirs[TRAINING]
    assert project.run("plan", "--engine", inside="demo").startswith("skip")


def test_its_job_runs_and_its_tests_pass(project: Project) -> None:
    assert "done: accuracy=" in project.run("run", inside="demo")
    assert " passed" in project.run("test", inside="demo")


def test_its_export_is_a_folder_for_docker_build(image: Image, project: Project) -> None:
    project.run("export", f"{image.variant.id}-demo", "exported", inside="demo")
    folder = project.folder / "demo/exported"
    assert PACKAGE in "".join(path.read_text() for path in folder.rglob("training.txt"))
    assert (folder / "Dockerfile").read_text().count("\nFROM ") > 1


def test_the_same_project_in_another_folder_is_the_same_image(project: Project) -> None:
    [first] = json.loads(project.run("list", "--json", inside="demo"))
    docker("image", "rm", "--force", project.ref)
    (project.folder / "demo").rename(project.folder / "elsewhere")
    try:
        project.run("build", inside="elsewhere")
        [second] = json.loads(project.run("list", "--json", inside="elsewhere"))
    finally:
        (project.folder / "elsewhere").rename(project.folder / "demo")
    assert first["digest"]
    assert second["digest"] == first["digest"]


@pytest.mark.long
def test_the_project_built_again_from_nothing_is_the_same_bytes(image: Image, project: Project) -> None:
    """No step of the second build is in the engine's cache; the image that is built is compared too."""
    said = project.run("verify-reproducible", f"{image.variant.id}-demo", "--once", inside="demo")
    assert "  identical  sha256:" in said
