"""Pipelines of the three CI systems, one after the other, with the real dlc, a builder and a registry of this host.

A tiny image is built, pushed, signed and promoted. In place of the machine's installation, of `dlc test`, which asks
about images for training, and of a login by AWS there are stand-ins.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from dlc.core.checkout import find_root
from harness import toy
from harness.ci_machine import list_first_scripts, list_scripts, write_programs
from harness.far_builder import NAME, SecondEngine, open_builder
from harness.signed_image import make_key

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(4 * toy.BUILD_SECONDS)]
ROOT = find_root(Path(__file__).parent)
SYSTEMS = ("github", "gitlab", "codebuild")
STEM = "1.17.0-training-cpu-py311-bookworm"
LAUNCHER = "src/entrypoint/launcher.py"
# `dlc test` writes down that the tests have passed; all else is dlc itself.
DLC = """#!{python}
import sys
from datetime import UTC, datetime
from dlc.__main__ import main
from dlc.core.environment import cache_folder
from dlc.engine.connection import connect
from dlc.engine.pushed import pull_pushed
from dlc.images.inspection.facts import inspect_image
from dlc.images.proof.tested import make_record, write_record
if sys.argv[1] != "test":
    sys.exit(main(sys.argv[1:]))
engine = connect()
pull_pushed(engine, ["{ref}"])
image = inspect_image(engine, "{ref}")["Id"]
write_record(cache_folder(), make_record(image, ["test_starts"], [], datetime.now(UTC)))
"""
DOCKER = """#!/bin/sh
case "$*" in *"--username AWS"*) exit 0 ;; esac
exec {docker} "$@"
"""
# What the steps install is there; the build's own calls are real.
APT_GET = """#!/bin/sh
case "$1" in -qq) exit 0 ;; esac
exec /usr/bin/apt-get "$@"
"""
ADVISORY = {
    "id": "PYSEC-2026-1", "modified": "2026-11-20T10:00:00Z",
    "affected": [{"package": {"ecosystem": "PyPI", "name": "other"}, "versions": ["1.0"]}],
}  # fmt: skip


@dataclass
class Pipelines:
    """A checkout in git, and the machine on which each pipeline runs."""

    far: SecondEngine
    root: Path
    folder: Path
    environment: dict[str, str]

    def commit(self, hour: int, note: str) -> None:
        """Commit a launcher with this note at its end, at this hour of a day."""
        (self.root / LAUNCHER).write_text(f"{(ROOT / LAUNCHER).read_text()}# {note}\n")
        when = f"2026-11-23T{hour:02}:00:00Z"
        names = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
        self.git("add", "--all", "--force", ".", **names)
        self.git("commit", "--quiet", "--allow-empty", "--message", note, **names)

    def git(self, *words: str, **more: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        argv = ["git", "-C", str(self.root), *who, *words]
        done = subprocess.run(argv, env={**os.environ, **more}, check=True, capture_output=True, text=True, timeout=60)
        return done.stdout.strip()

    def run(self, system: str, path: str, *, is_request: bool = False, until: str = "") -> str:
        """Run a pipeline of the commit, until a cancellation before a step; return what its shells print."""
        listed = self.folder / "listed"
        content = yaml.safe_load(self.dlc("ci", system, "toy-*").stdout)
        place = f"{self.far.registry.host}/{path}"
        environment = {
            **self.environment, "CACHE": f"{place}/cache", "STAGING": f"{place}/staging", "PROD": f"{place}/prod",
            "PROMOTE": "no" if is_request else "yes", "IMAGE": toy.ID, "PARENTS": "", "GITHUB_OUTPUT": str(listed),
            "CODEBUILD_WEBHOOK_TRIGGER": "pr/7" if is_request else "branch/main",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": self.git("rev-parse", "HEAD^1"),
        }  # fmt: skip
        first, scripts = list_first_scripts(system, content), list_scripts(system, content, toy.ID)
        listed.unlink(missing_ok=True)
        said = "".join(self.run_shell(script, environment) for script in first)
        if system == "github" and toy.ID not in listed.read_text():
            return f"{said}no image is to be built\n"
        for script in scripts:
            if until and f"\ndlc {until} " in f"\n{script}":
                part = script[: f"\n{script}".index(f"\ndlc {until} ")]
                return said + self.run_shell(part, environment)
            said += self.run_shell(script, environment)
        return said

    def run_shell(self, script: str, environment: dict[str, str]) -> str:
        argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        done = subprocess.run(
            argv, cwd=self.root, env=environment, capture_output=True, text=True, timeout=toy.BUILD_SECONDS, check=False
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def dlc(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(self.folder / "bin/dlc"), *words],
            cwd=self.root, env=self.environment, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 34), done.stderr
        return done

    def digest(self, name: str) -> str:
        """The digest that the moving tag of a repository means; empty without a tag."""
        link = self.far.registry.repository(f"{name}/toy") / f"_manifests/tags/{STEM}/current/link"
        return link.read_text() if link.exists() else ""


@pytest.fixture(scope="module")
def pipelines(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipelines]:
    folder = tmp_path_factory.mktemp("ci")
    root = folder / "checkout"
    toy.make_checkout(root, "dlc-toy-ci")
    with open_builder("dockerd", folder) as far:
        assert isinstance(far, SecondEngine)
        write_programs(folder / "bin")
        docker = subprocess.run(["which", "docker"], capture_output=True, text=True, check=True).stdout.strip()
        (folder / "bin/docker").write_text(DOCKER.format(docker=docker))
        (folder / "bin/dlc").write_text(DLC.format(python=sys.executable, ref=toy.ref("dlc-toy-ci")))
        (folder / "bin/apt-get").write_text(APT_GET)
        dump = folder / "all.zip"
        with zipfile.ZipFile(dump, "w") as archive:
            archive.writestr("PYSEC-2026-1.json", json.dumps(ADVISORY))
        make_key(folder)
        environment = {
            **os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "CALLS": str(folder / "calls"),
            "GITHUB_PATH": str(folder / "path"), "DOCKER_HOST": far.engine.address, "BUILDER": NAME,
            "REGISTRY_USER": "pusher", "REGISTRY_PASSWORD": "correct-horse",
            "SIGNING_KEY": (folder / "cosign.key").read_text(), "PUBLIC_KEY": (folder / "cosign.pub").read_text(),
            "DLC_OSV_DUMP": f"{dump}#sha256={hashlib.sha256(dump.read_bytes()).hexdigest()}",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }  # fmt: skip
        found = Pipelines(far, root, folder, environment)
        found.git("init", "--quiet")
        yield found


@pytest.mark.parametrize("system", SYSTEMS)
def test_pipelines_of_a_branch_converge_and_none_goes_back(system: str, pipelines: Pipelines) -> None:
    prod, staging = f"{system}/prod", f"{system}/staging"
    pipelines.commit(8, "a")
    pipelines.commit(9, "b")
    pipelines.run(system, system, is_request=True)
    assert not pipelines.far.registry.repository(system).exists(), "a request writes nothing"

    pipelines.run(system, system, until="test")
    assert pipelines.digest(staging)
    assert not pipelines.digest(prod), "the pipeline was cancelled before its tests"
    assert "was there already" in pipelines.run(system, system)
    first = pipelines.digest(prod)
    assert first == pipelines.digest(staging)
    assert "toy@sha256" not in pipelines.run(system, system), "there is nothing left to do"

    pipelines.commit(11, "c")
    pipelines.run(system, system)
    newer = pipelines.digest(prod)
    assert newer not in ("", first)

    # The pipeline of ten o'clock comes last.
    pipelines.git("reset", "--quiet", "--hard", "HEAD^1")
    pipelines.commit(10, "slow")
    said = pipelines.run(system, system)
    assert "expected an image of 2026-11-23T10:00:00Z or before, found one of 2026-11-23T11:00:00Z" in said
    assert [pipelines.digest(name) for name in (prod, staging)] == [newer, newer]

    # A commit that takes it all back has the first image, which is older than the newer one.
    pipelines.commit(12, "b")
    pipelines.run(system, system)
    assert pipelines.digest(prod) == first
