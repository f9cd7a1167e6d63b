"""The files of dlc ci: their schemas accept them, and a shell runs the steps of a job, with stand-ins for programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dlc.cli import make_parser
from harness.ci_machine import (
    EXAMPLES,
    IMAGE,
    PARENT,
    VALUES,
    list_calls,
    list_first_scripts,
    read_example,
    read_scripts,
    write_programs,
)
from harness.installed import TOOLS

CACHES = (
    f" --cache-from type=registry,ref=registry.example/cache/dlc:{IMAGE}"
    f" --cache-from type=registry,ref=registry.example/cache/dlc:{PARENT}"
)
BUILD = (
    f"dlc build {IMAGE} --builder dlc-ci --push registry.example/staging{CACHES}"
    f" --cache-to type=registry,ref=registry.example/cache/dlc:{IMAGE},mode=max"
)
CHECK = [f"dlc test {IMAGE}", f"dlc scan {IMAGE}"]
PUSH = f"dlc push {IMAGE} --to registry.example/staging --sign PIPE"
PROMOTE = f"dlc promote {IMAGE} --from registry.example/staging --to prod.example/dlc --key PIPE"
# What a system has in a pull request.
REQUEST = {"PROMOTE": "no", "CODEBUILD_WEBHOOK_TRIGGER": "pr/7"}


class Runner:
    """A folder of sources, and the programs that a CI system's machine has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "sources"
        self.calls = folder / "calls"
        self.path = folder / "path"
        self.output = folder / "output"
        self.keys = folder / "keys"
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.folder.mkdir()
        programs = folder / "bin"
        write_programs(programs)
        self.environment = {**os.environ, **VALUES, "PATH": f"{programs}:{os.environ['PATH']}"}
        self.environment |= {"CALLS": str(self.calls), "GITHUB_PATH": str(self.path), "GITHUB_OUTPUT": str(self.output)}
        self.environment |= {"KEYS": str(self.keys), "TMPDIR": str(self.temporary)}

    def run(self, script: str, listed: str = IMAGE, **more: str) -> int:
        argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        environment = {**self.environment, "LISTED": listed, **more}
        return subprocess.run(argv, cwd=self.folder, env=environment, timeout=600, check=False).returncode

    @property
    def called(self) -> list[str]:
        """What was called so far, the installation aside."""
        lines = [re.sub("/dev/fd/[0-9]+", "PIPE", line) for line in list_calls(self.calls)]
        for _, verb, *words in (line.split() for line in lines if line.startswith("dlc ")):
            # Ends the test at an option that dlc does not take.
            make_parser(verb)[0].parse_args(words)
        return lines

    def run_all(self, system: str, **more: str) -> int:
        """Run the steps of the image's job until one fails."""
        prepare(self, system)
        return next((code for script in read_scripts(system) if (code := self.run(script, **more))), 0)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def prepare(runner: Runner, system: str, listed: str = IMAGE) -> None:
    """What a job before has left: GitLab's list of images."""
    if system == "gitlab":
        (runner.folder / "images.txt").write_text(f"{listed}\n")


SYSTEMS = ["github", "gitlab", "codebuild"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_steps_of_a_job_build_test_scan_push_and_promote(system: str, runner: Runner) -> None:
    assert runner.run_all(system) == 0
    called = runner.called
    logins = [line for line in called if line.startswith("docker login")]
    assert [line.split()[-1] for line in logins] == ["registry.example", "registry.example", "prod.example"]
    assert called.count("secret") == 3
    assert "docker buildx create --name dlc-ci --driver docker-container" in called
    assert called[-5:] == [BUILD, *CHECK, PUSH, PROMOTE]
    assert runner.keys.read_text().splitlines() == ["--sign a private|key|", "--key a public|key|"]
    if system == "github":
        assert runner.path.read_text() == f"{runner.folder}/.venv/bin\n"


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_pull_request_builds_and_writes_nothing_that_others_read(system: str, runner: Runner) -> None:
    assert runner.run_all(system, **REQUEST) == 0
    assert runner.called[-3:] == [f"dlc build {IMAGE} --builder dlc-ci{CACHES}", *CHECK]
    assert not any(word in " ".join(runner.called) for word in ("--push", "--cache-to", "dlc push", "dlc promote"))


@pytest.mark.parametrize("system", ["github", "gitlab"])
def test_a_pull_request_from_a_fork_has_neither_password_nor_cache_and_builds(system: str, runner: Runner) -> None:
    assert runner.run_all(system, **REQUEST, CACHE="", REGISTRY_PASSWORD="", SIGNING_KEY="", PUBLIC_KEY="") == 0
    assert runner.called[-3:] == [f"dlc build {IMAGE} --builder dlc-ci", *CHECK]
    assert not any(line.startswith("docker login") for line in runner.called)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_superseded_pipeline_ends_well(system: str, runner: Runner) -> None:
    """It has built, tested and pushed under its content tag, and has left the tags to the newer commit."""
    assert runner.run_all(system, FAILS="build push promote", CODE="34") == 0
    assert runner.called[-5:] == [BUILD, *CHECK, PUSH, PROMOTE]


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("verb", ["build", "push", "promote"])
def test_any_other_failure_fails_the_job(verb: str, system: str, runner: Runner) -> None:
    assert runner.run_all(system, FAILS=verb, CODE="33") != 0
    assert runner.called[-1] == {"build": BUILD, "push": PUSH, "promote": PROMOTE}[verb]


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_signing_key_is_in_no_file_and_among_no_words_though_the_push_fails(system: str, runner: Runner) -> None:
    assert runner.run_all(system, FAILS="push") != 0
    assert "sign" in runner.keys.read_text()
    runner.keys.unlink()
    places = [runner.folder, runner.temporary, runner.folder.parent]
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    assert [path for path in files if "a private" in path.read_text(errors="replace")] == []
    assert list(runner.temporary.iterdir()) == []


@pytest.mark.parametrize("system", ["gitlab", "codebuild"])
def test_the_job_of_an_image_that_is_not_listed_does_nothing(system: str, runner: Runner) -> None:
    prepare(runner, system, listed=f"{IMAGE}-other")
    assert [runner.run(script, listed="") for script in read_scripts(system)] == [0]
    assert [line for line in runner.called if line.startswith(("dlc build", "docker buildx"))] == []


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_step_that_fails_ends_the_job_before_the_push(system: str, runner: Runner) -> None:
    assert runner.run_all(system, FAILS="test") == 32
    assert runner.called[-1] == CHECK[0]


@pytest.mark.parametrize(
    ("system", "promote", "asked"),
    [
        ("github", "yes", "--missing-from prod.example/dlc --names"),
        ("github", "no", "--changed-since HEAD^1 --names"),
        ("gitlab", "yes", "--missing-from prod.example/dlc --names"),
        ("gitlab", "no", "--changed-since 0123abc --names"),
    ],
)
def test_the_first_job_asks_the_registry_or_the_branch_that_a_request_goes_to(
    system: str, promote: str, asked: str, runner: Runner
) -> None:
    file = "github/images.yml" if system == "github" else "gitlab/.gitlab-ci.yml"
    scripts = list_first_scripts(system, read_example(file))
    assert [runner.run(script, f"{PARENT}\n{IMAGE}", PROMOTE=promote) for script in scripts] == [0] * len(scripts)
    assert runner.called[-1] == f"dlc plan {asked}"
    if system == "github":
        assert runner.output.read_text() == f'images=["{PARENT}","{IMAGE}"]\n'
    else:
        assert (runner.folder / "images.txt").read_text() == f"{PARENT}\n{IMAGE}\n"


def test_codebuild_asks_the_registry_in_each_build(runner: Runner) -> None:
    assert runner.run_all("codebuild") == 0
    assert f"dlc plan {IMAGE} --missing-from prod.example/dlc --names" in runner.called


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


@pytest.mark.parametrize("system", SYSTEMS)
def test_shellcheck_finds_nothing_in_the_steps(system: str, tmp_path: Path) -> None:
    scripts = read_scripts(system)
    paths = [tmp_path / f"{number}.sh" for number in range(len(scripts))]
    for path, script in zip(paths, scripts, strict=True):
        path.write_text(f"#!/bin/bash\n{script}\n")
    argv = [str(TOOLS / "shellcheck"), "--severity=warning", *map(str, paths)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout


WORKFLOWS = ["github/images.yml", "github-workflow.yml"]


@pytest.mark.parametrize("file", WORKFLOWS)
def test_zizmor_finds_nothing_in_a_workflow(file: str, tmp_path: Path) -> None:
    argv = [str(TOOLS / "zizmor"), "--offline", "--no-progress"]
    done = subprocess.run([*argv, str(EXAMPLES / file)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = tmp_path / "images.yml"
    wrong.write_text(re.sub(r"@[0-9a-f]{40} # ", "@", (EXAMPLES / file).read_text(), count=1))
    done = subprocess.run([*argv, str(wrong)], capture_output=True, text=True, timeout=600, check=False)
    assert "unpinned-uses" in done.stdout, "zizmor sees an action without a digest"


@pytest.mark.parametrize("file", WORKFLOWS)
def test_actionlint_finds_nothing_in_a_workflow(file: str, tmp_path: Path) -> None:
    if not shutil.which("actionlint"):
        pytest.skip("there is no actionlint on PATH")
    where = {**os.environ, "PATH": f"{TOOLS}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["actionlint", str(EXAMPLES / file)], env=where, capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    wrong = tmp_path / "images.yml"
    wrong.write_text((EXAMPLES / file).read_text().replace("runs-on:", "runs-upon:", 1))
    again = subprocess.run(["actionlint", str(wrong)], env=where, capture_output=True, timeout=600, check=False)
    assert again.returncode == 1, "actionlint sees a wrong key"
