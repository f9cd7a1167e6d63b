"""A project from nothing to a tested image, by the installed dlc, in a folder outside every checkout."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import toy
from harness.engine import connect, docker, run_once
from harness.images import Image
from harness.installed import build_package, install_wheel, run_installed

pytestmark = [
    pytest.mark.integration,
    pytest.mark.when(framework="pytorch", device="cpu"),
    pytest.mark.timeout(4 * toy.BUILD_SECONDS),
]
PACKAGE = "einops"


class Project:
    """A folder of a user, and dlc from its wheel alone."""

    def __init__(self, command: Path, folder: Path) -> None:
        self.command, self.folder = command, folder

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
    found = Project(install_wheel(build_package(home / "package")[1], home / "venv"), home)
    found.run("init", "demo", "--from", image.variant.id, "--package", PACKAGE)
    found.run("build", inside="demo")
    yield found
    docker("image", "rm", "--force", found.run("show", "--ref", inside="demo").strip(), check=False)


def test_the_image_has_the_package_and_the_folder_its_lock(image: Image, project: Project) -> None:
    [lock] = (project.folder / "demo/locks").glob("[!.]*")
    assert lock.name == f"{image.variant.id}-demo"
    assert f"\n{PACKAGE}==" in (lock / "training.txt").read_text()
    ref = project.run("show", "--ref", inside="demo").strip()
    done = run_once(ref, "python", "-c", f"import {PACKAGE}, torch; print('fine')")
    assert done.stdout == "fine\n", done.stderr


def test_its_framework_is_the_released_layer_and_nothing_below_differs(image: Image, project: Project) -> None:
    ref = project.run("show", "--ref", inside="demo").strip()
    [own] = json.loads(docker("image", "inspect", ref).stdout)
    theirs, ours = image.inspected["RootFS"]["Layers"], own["RootFS"]["Layers"]
    shared = next(number for number, pair in enumerate(zip(theirs, ours, strict=False)) if len(set(pair)) > 1)
    assert shared >= 1, "the framework's layer is the first of all"
    assert project.run("plan", "--engine", inside="demo").startswith("skip")


def test_its_job_runs_and_its_tests_pass(project: Project) -> None:
    assert "done: accuracy=" in project.run("run", inside="demo")
    assert " passed" in project.run("test", inside="demo")


def test_the_same_project_elsewhere_is_the_same_image(project: Project) -> None:
    """The folder's name and place are no part of it."""
    before = project.run("list", "--json", inside="demo")
    ref = project.run("show", "--ref", inside="demo").strip()
    docker("image", "rm", "--force", ref)
    (project.folder / "demo").rename(project.folder / "elsewhere")
    project.run("build", inside="elsewhere")
    (project.folder / "elsewhere").rename(project.folder / "demo")
    [first], [second] = json.loads(before), json.loads(project.run("list", "--json", inside="demo"))
    assert second["digest"] == first["digest"]
