"""Pipelines of the three CI systems, one after the other, with the real dlc, an engine and a registry of this host.

A tiny image is planned, built, scanned, pushed, signed and promoted. There are stand-ins for the machine's
installation, for a login by AWS, for the builder (the engine builds, and `dlc push` pushes), and for `dlc test`, which
asks about images for training.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import pytest
import yaml

from dlc.core.checkout import find_root
from harness import toy
from harness.ci_machine import list_first_scripts, list_scripts, write_programs
from harness.engine import docker
from harness.registry import PASSWORD, USER, Registry
from harness.signed_image import make_key

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(4 * toy.BUILD_SECONDS)]
ROOT = find_root(Path(__file__).parent)
SYSTEMS = ("github", "gitlab", "codebuild")
STEM = "1.17.0-training-cpu-py311-bookworm"
LAUNCHER = "src/entrypoint/launcher.py"
REPOSITORY = "dlc-toy-ci"
REF = toy.ref(REPOSITORY)
# Files answer the scan, because nobody else is asked.
DLC = """#!{python}
import os, subprocess, sys
from datetime import UTC, datetime
from dlc.core.environment import cache_folder
from dlc.engine.connection import connect
from dlc.inspection.facts import inspect_image
from dlc.proof.tested import make_record, write_record

def dlc(*words):
    return subprocess.call([sys.executable, "-m", "dlc", *words], close_fds=False)

verb, *words = sys.argv[1:]
if verb in ("scan", "push"):
    os.environ |= dict.fromkeys(("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"), "http://127.0.0.1:9")
    os.environ["NO_PROXY"] = "127.0.0.1"
if verb == "test":
    image = inspect_image(connect(), "{ref}")["Id"]
    write_record(cache_folder(), make_record(image, ["test_starts"], [], datetime.now(UTC)))
elif verb == "build":
    code = dlc("build", words[0])
    place = words[words.index("--push") + 1] if "--push" in words else ""
    sys.exit(code or (dlc("push", words[0], "--no-scan", "--to", place) if place else 0))
else:
    sys.exit(dlc(verb, *words))
"""
DOCKER = """#!/bin/sh
case "$*" in
  *"--username AWS"*) cat >/dev/null; exit 0 ;;
  "buildx inspect any") exit 0 ;;
esac
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

    registry: Registry
    root: Path
    folder: Path
    environment: dict[str, str]
    # When the commits of a system are made: the engine keeps images of the system before.
    day: date = date(2026, 11, 23)

    def commit(self, hour: int, note: str) -> None:
        """Commit a launcher with this note at its end, at this hour of the system's day."""
        (self.root / LAUNCHER).write_text(f"{(ROOT / LAUNCHER).read_text()}# {note}\n")
        when = f"{self.day}T{hour:02}:00:00Z"
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
        place = f"{self.registry.host}/{path}"
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
            part, found = re.subn(rf"(?m)^( *)dlc {until} .*", r"\1exit 0", script) if until else (script, 0)
            said += self.run_shell(part, environment)
            if found:
                return said
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
        link = self.registry.repository(f"{name}/toy") / f"_manifests/tags/{STEM}/current/link"
        return link.read_text() if link.exists() else ""


@pytest.fixture(scope="module")
def pipelines(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipelines]:
    folder = tmp_path_factory.mktemp("ci")
    root = folder / "checkout"
    toy.make_checkout(root, REPOSITORY)
    registry = Registry(folder / "registry")
    registry.start()
    write_programs(folder / "bin")
    for name, text in (("docker", DOCKER), ("dlc", DLC), ("apt-get", APT_GET)):
        (folder / "bin" / name).write_text(text.format(docker=shutil.which("docker"), python=sys.executable, ref=REF))
    with zipfile.ZipFile(folder / "all.zip", "w") as archive:
        archive.writestr("PYSEC-2026-1.json", json.dumps(ADVISORY))
    (folder / "tracker.json").write_text("{}")
    make_key(folder)
    environment = toy.environment(
        PATH=f"{folder / 'bin'}:{os.environ['PATH']}", PYTHONPATH=os.pathsep.join(sys.path), BUILDER="any",
        CALLS=str(folder / "calls"), GITHUB_PATH=str(folder / "path"),
        REGISTRY_USER=USER, REGISTRY_PASSWORD=PASSWORD, DLC_OSV_DUMP=pin(folder / "all.zip"),
        SIGNING_KEY=(folder / "cosign.key").read_text(), PUBLIC_KEY=(folder / "cosign.pub").read_text(),
        DLC_DEBIAN_TRACKER_DUMP=pin(folder / "tracker.json"), **registry.login(folder / "docker"),
    )  # fmt: skip
    found = Pipelines(registry, root, folder, environment)
    found.git("init", "--quiet")
    yield found
    registry.kill()
    docker("image", "rm", "--force", REF, check=False)


def pin(path: Path) -> str:
    return f"{path}#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}"


@pytest.mark.parametrize("system", SYSTEMS)
def test_pipelines_of_a_branch_converge_and_none_goes_back(system: str, pipelines: Pipelines) -> None:
    prod, staging = f"{system}/prod", f"{system}/staging"
    pipelines.day += timedelta(days=1)
    pipelines.commit(8, "a")
    pipelines.commit(9, "b")
    pipelines.run(system, system, is_request=True)
    assert not pipelines.registry.repository(system).exists(), "a request writes nothing"

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
    day = pipelines.day
    assert f"expected an image of {day}T10:00:00Z or before, found one of {day}T11:00:00Z" in said
    assert [pipelines.digest(name) for name in (prod, staging)] == [newer, newer]

    # A commit that takes it all back.
    pipelines.commit(12, "b")
    pipelines.run(system, system)
    assert pipelines.digest(prod) not in ("", newer)
    place = f"{pipelines.registry.host}/{prod}"
    assert pipelines.dlc("plan", "toy-*", "--missing-from", place, "--names").stdout == ""
