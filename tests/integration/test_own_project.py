"""A project from nothing to a tested image, by the installed dlc, in a folder outside every checkout."""

from __future__ import annotations

import io
import json
import secrets
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlc.inspection.archive import open_member
from dlc.registry.client.repository import describe_blob, make_manifest
from dlc.registry.layers import open_saved
from harness import toy
from harness.empty_wheel import write_wheel
from harness.engine import connect, docker, run_once
from harness.git_package import Repository
from harness.images import Image
from harness.installed import run_installed, take_environment

pytestmark = [
    pytest.mark.integration,
    pytest.mark.when(framework="pytorch", device="cpu"),
    pytest.mark.timeout(4 * toy.BUILD_SECONDS),
]
PACKAGE = "einops"
OWN_PACKAGE = "dlc_own_thing"
# Another run of these tests may use the same engine.
NAME = f"demo-{secrets.token_hex(3)}"
SITE = "opt/venv/lib/python3.11/site-packages/"
# What a push sends for the packages that a project adds, in bytes of their wheels.
LARGEST_SHARE = 1.2


class Project:
    """A folder of a user, and dlc from its wheel alone."""

    def __init__(self, command: Path, folder: Path) -> None:
        self.command, self.folder, self.ref = command, folder, ""

    def run(self, *words: str, inside: str = "", **more: str) -> str:
        """Run dlc, which must end with 0; return what it printed."""
        settings = {**connect().environment, "DLC_CACHE_DIR": str(self.folder / "cache"), **more}
        done = run_installed(self.command, self.folder / inside, *words, seconds=2 * toy.BUILD_SECONDS, **settings)
        assert done.returncode == 0, f"dlc {' '.join(words)}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def project(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project with one more package, built by two commands."""
    home = tmp_path_factory.mktemp("home")
    found = Project(take_environment() / "bin/dlc", home)
    found.run("init", "demo", "--name", NAME, "--from", image.variant.id, "--package", PACKAGE)
    found.ref = found.run("show", "--ref", inside="demo").strip()
    found.run("build", inside="demo")
    yield found
    docker("image", "rm", "--force", found.ref, check=False)


def layers_of(ref: str) -> list[str]:
    [found] = json.loads(docker("image", "inspect", ref).stdout)
    return list(found["RootFS"]["Layers"])


def test_the_image_has_the_package_and_the_folder_its_lock(image: Image, project: Project) -> None:
    [lock] = (project.folder / "demo/locks").glob("[!.]*")
    assert lock.name == f"{image.variant.id}-{NAME}"
    assert f"\n{PACKAGE}==" in (lock / "added.txt").read_text()
    done = run_once(project.ref, "python", "-c", f"import {PACKAGE}, torch; print('fine')")
    assert done.stdout == "fine\n", done.stderr


def test_all_layers_below_are_the_released_ones_and_one_is_its_own(image: Image, project: Project) -> None:
    theirs, ours = image.inspected["RootFS"]["Layers"], layers_of(project.ref)
    assert ours[:-1] == theirs
    assert project.run("plan", "--engine", inside="demo").startswith("skip")


def test_its_layer_holds_the_package_and_nothing_else_and_is_sent_as_small_as_its_wheel(
    project: Project, tmp_path: Path
) -> None:
    wheel = io.BytesIO()
    with open_saved(connect(), project.ref, tmp_path) as saved:
        sent = saved.write_layer(saved.members.layers[-1], layers_of(project.ref)[-1], "gzip")
        config = saved.write_config()
        with (
            tarfile.open(fileobj=open_member(saved.archive, saved.members.layers[-1])) as layer,
            zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            files = [member for member in layer if not member.isdir()]
            names = [member.name for member in files]
            for member in files:
                content = layer.extractfile(member)
                archive.writestr(member.name.removeprefix(SITE), content.read() if content else b"")
            assert {member.mtime for member in layer} == {315532800}
    assert f"{SITE}{PACKAGE}/__init__.py" in names
    assert [name for name in names if not name.startswith(f"{SITE}{PACKAGE}")] == []
    assert [name for name in names if name.endswith(".pyc") or ".wh." in name] == []
    manifest = make_manifest(config, [sent] * len(layers_of(project.ref)))
    pushed = sent["size"] + config["size"] + describe_blob("", manifest.data)["size"]
    assert pushed <= LARGEST_SHARE * len(wheel.getvalue())


@pytest.mark.long
def test_its_job_runs_and_its_tests_pass(project: Project) -> None:
    assert "done: accuracy=" in project.run("run", inside="demo")
    assert " passed" in project.run("test", inside="demo")


def test_its_export_is_a_folder_for_docker_build(image: Image, project: Project) -> None:
    project.run("export", f"{image.variant.id}-{NAME}", "exported", inside="demo")
    folder = project.folder / "demo/exported"
    assert PACKAGE in "".join(path.read_text() for path in folder.rglob("added.txt"))
    assert (folder / "Dockerfile").read_text().count("\nFROM ") > 1


def test_the_same_project_in_another_folder_is_the_same_image(project: Project) -> None:
    first = docker("image", "inspect", "--format", "{{.Id}}", project.ref).stdout
    docker("image", "rm", "--force", project.ref)
    (project.folder / "demo").rename(project.folder / "elsewhere")
    try:
        project.run("build", inside="elsewhere")
        second = docker("image", "inspect", "--format", "{{.Id}}", project.ref).stdout
    finally:
        (project.folder / "elsewhere").rename(project.folder / "demo")
    assert second == first


def test_debian_packages_own_wheels_commits_and_a_user_change_nothing_below(image: Image, project: Project) -> None:
    """Each is a layer of its own; the job runs as the user. No step but one looks at the folder of the wheel."""
    folder = project.folder / "more"
    shutil.copytree(project.folder / "demo", folder, ignore=shutil.ignore_patterns("locks", "dlc-jobs"))
    text = (folder / "dlc.yml").read_text().replace(f"name: {NAME}", f"name: {NAME}-more")
    text = text.replace(f"repository: {NAME}", "")
    repository = Repository(project.folder / "repository")
    repository.commit("0.3")
    text = text.replace(f'["{PACKAGE}"]', f'[{PACKAGE}, {OWN_PACKAGE}, "tiny @ {repository.address}@main"]').replace(
        "os_packages: []", "os_packages: [less]"
    )
    (folder / "dlc.yml").write_text(f"{text}user: dev\n")
    write_wheel(project.folder / "wheels", OWN_PACKAGE, "1.0")
    project.run("lock", inside="more", UV_FIND_LINKS=str(project.folder / "wheels"))
    ref = project.run("show", "--ref", inside="more").strip()
    try:
        project.run("build", inside="more", UV_FIND_LINKS=str(project.folder / "wheels"))
        assert layers_of(ref)[:-3] == image.inspected["RootFS"]["Layers"]
        check = (
            f"from importlib.metadata import version as v; print(v('{OWN_PACKAGE}'), v('tiny'), v('{PACKAGE}') > '0')"
        )
        done = run_once(ref, "sh", "-c", f'id -un; echo ~; less --version | head -c 5; echo; python -c "{check}"')
        assert done.stdout == "dev\n/home/dev\nless \n1.0 0.3 True\n", done.stderr
        assert "done: accuracy=" in project.run("run", inside="more")
    finally:
        docker("image", "rm", "--force", ref, check=False)


@pytest.mark.long
def test_the_project_built_again_from_nothing_is_the_same_bytes(image: Image, project: Project) -> None:
    """No step of the second build is in the engine's cache; the image that is built is compared too."""
    said = project.run("verify-reproducible", f"{image.variant.id}-{NAME}", "--once", inside="demo")
    assert "  identical  sha256:" in said
