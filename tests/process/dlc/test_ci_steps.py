"""The files of dlc ci: their schemas accept them, and a shell runs the steps of a job, with stand-ins for programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.ci_machine import (
    EXAMPLES,
    IMAGE,
    PARENT,
    VALUES,
    list_calls,
    read_example,
    read_scripts,
    write_programs,
)
from harness.installed import TOOLS

# Reads the words as dlc itself does, so that an option that there is not ends the step.
DLC = """#!{python}
import os, sys
from dlc.cli import make_parser
verb, *words = sys.argv[1:]
parser, _ = make_parser(verb)
args = parser.parse_args(words)
with open(os.environ["CALLS"], "a") as calls:
    print("dlc", *sys.argv[1:], file=calls)
if verb == "plan":
    print(os.environ["CHANGED"], end="\\n" if os.environ["CHANGED"] else "")
if verb == os.environ.get("FAILS"):
    sys.exit(32)
"""
BUILD = (
    f"dlc build {IMAGE} --builder dlc-ci --push registry.example/staging"
    f" --cache-from type=registry,ref=registry.example/cache/dlc:{IMAGE}"
    f" --cache-from type=registry,ref=registry.example/cache/dlc:{PARENT}"
    f" --cache-to type=registry,ref=registry.example/cache/dlc:{IMAGE},mode=max"
)
AFTER = [f"dlc test {IMAGE}", f"dlc scan {IMAGE}", f"dlc push {IMAGE} --to registry.example/staging"]
PROMOTE = f"dlc promote {IMAGE} --from registry.example/staging --to prod.example/dlc"


class Runner:
    """A folder of sources, and the programs that a CI system's machine has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "sources"
        self.calls = folder / "calls"
        self.path = folder / "path"
        self.output = folder / "output"
        self.folder.mkdir()
        programs = folder / "bin"
        write_programs(programs, DLC.format(python=sys.executable))
        self.environment = {**os.environ, **VALUES, "PATH": f"{programs}:{os.environ['PATH']}"}
        self.environment |= {"CALLS": str(self.calls), "GITHUB_PATH": str(self.path), "GITHUB_OUTPUT": str(self.output)}

    def run(self, script: str, changed: str = IMAGE, **more: str) -> int:
        argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        environment = {**self.environment, "CHANGED": changed, **more}
        done = subprocess.run(
            argv, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert "usage" not in done.stderr, done.stderr
        return done.returncode

    @property
    def called(self) -> list[str]:
        """What was called so far, the installation aside."""
        return list_calls(self.calls)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def prepare(runner: Runner, system: str, changed: str = IMAGE) -> None:
    """What a job before has left: GitLab's list of images."""
    if system == "gitlab":
        (runner.folder / "changed-images.txt").write_text(f"{changed}\n")


@pytest.mark.parametrize("system", ["github", "gitlab", "codebuild"])
def test_the_steps_of_a_job_build_test_scan_push_and_promote(system: str, runner: Runner) -> None:
    prepare(runner, system)
    assert [runner.run(script) for script in read_scripts(system)] == [0] * len(read_scripts(system))
    called = runner.called
    logins = [line for line in called if line.startswith("docker login")]
    assert [line.split()[-1] for line in logins] == ["registry.example", "registry.example", "prod.example"]
    assert called.count("secret") == 3
    assert "docker buildx create --name dlc-ci --driver docker-container" in called
    assert called[-5:] == [BUILD, *AFTER, PROMOTE]
    if system == "github":
        assert runner.path.read_text() == f"{runner.folder}/.venv/bin\n"


@pytest.mark.parametrize("system", ["gitlab", "codebuild"])
def test_the_job_of_an_unchanged_image_does_nothing(system: str, runner: Runner) -> None:
    prepare(runner, system, changed=f"{IMAGE}-other")
    assert [runner.run(script, changed="") for script in read_scripts(system)] == [0]
    assert [line for line in runner.called if line.startswith(("dlc build", "docker"))] == []


@pytest.mark.parametrize("system", ["github", "gitlab", "codebuild"])
def test_a_step_that_fails_ends_the_job_before_the_push(system: str, runner: Runner) -> None:
    prepare(runner, system)
    for script in read_scripts(system):
        if code := runner.run(script, FAILS="test"):
            break
    assert code == 32
    assert runner.called[-1] == AFTER[0]


@pytest.mark.parametrize("system", ["github", "gitlab"])
def test_the_first_job_lists_what_changed(system: str, runner: Runner) -> None:
    if system == "github":
        steps = read_example("github/images.yml")["jobs"]["changed"]["steps"]
        assert [runner.run(step["run"], f"{PARENT}\n{IMAGE}") for step in steps if "run" in step] == [0, 0]
        assert runner.output.read_text() == f'images=["{PARENT}","{IMAGE}"]\n'
    else:
        assert runner.run("\n".join(read_example("gitlab/.gitlab-ci.yml")["changed"]["script"])) == 0
        assert (runner.folder / "changed-images.txt").read_text() == f"{IMAGE}\n"
    assert runner.called[-1] == "dlc plan --changed-since 0123abc --names"


@pytest.mark.parametrize(
    ("schema", "file", "options"),
    [
        ("vendor.github-workflows", "github/images.yml", ()),
        ("vendor.gitlab-ci", "gitlab/.gitlab-ci.yml", ("--data-transform", "gitlab-ci")),
    ],
)
def test_the_schema_of_the_system_accepts_the_file(schema: str, file: str, options: tuple[str, ...]) -> None:
    argv = [TOOLS / "python", "-m", "check_jsonschema", "--builtin-schema", schema, *options, str(EXAMPLES / file)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
