"""dlc as `pip install` gives it, outside every checkout: help, completion, keys, a job of two hosts, CI files.

Its packages are those that an index serves today, and no others. An engine's containers are processes here
(stand_in_docker.py); tests/integration has the same job with real ones.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

import dlc
from dlc.cli import PLUMBING, VERBS
from dlc.core.errors import Interrupted, list_exit_codes
from harness.installed import BUILT, ROOT, TOOLS, list_pythons, run_installed, take_environment
from harness.rank_report import rank_report

BOUND_SECONDS = 120.0
PACKAGES = ("dlc", "dlc_channel", "dlc_lint", "dlc_runtime")
COMPLETE = """
eval "$("$1" completion bash)"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_dlc "$1"
printf '%s\\n' "${COMPREPLY[@]}"
"""
SCRIPT = f"""
import json, os, sys, time
host = os.environ["SM_CURRENT_HOST"]
report = json.loads({json.dumps(rank_report(0))!r})
os.makedirs("../output/data/compiler")
with open("../output/data/compiler/rank-0.json", "w") as file:
    json.dump({{**report, "host": host, "started": 0, "written": 1}}, file)
with open(os.environ["SM_MODEL_DIR"] + "/" + host, "w") as file:
    file.write("trained")
if "--wait" in sys.argv:
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def command() -> Path:
    return take_environment() / "bin/dlc"


@pytest.fixture(params=list_pythons(), ids=lambda python: Path(os.path.realpath(python)).name)
def command_of_each_python(request: pytest.FixtureRequest) -> Path:
    return take_environment(request.param) / "bin/dlc"


def ask(command: Path, folder: Path, *words: str, **more: str) -> str:
    """Run dlc, which must end with 0; return what it printed."""
    nowhere = {"DLC_ENGINE": "off", "DOCKER_HOST": f"unix://{folder}/none.sock", "DLC_CACHE_DIR": f"{folder}/cache"}
    done = run_installed(command, folder, *words, **{**nowhere, **more})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_every_package_is_that_of_the_wheel(command: Path, tmp_path: Path) -> None:
    """If a module were missing there, the checkout's own would hide it."""
    code = f"import {', '.join(PACKAGES)}; print(*(each.__file__ for each in ({', '.join(PACKAGES)})), sep='\\n')"
    found = run_installed(command.with_name("python"), tmp_path, "-c", code).stdout.splitlines()
    assert [path for path in found if not path.startswith(str(command.parents[1]))] == []
    assert len(found) == len(PACKAGES)


@pytest.mark.parametrize("words", [(), ("--help",), ("help",), ("help", "exit-codes"), ("--version",)], ids=" ".join)
def test_help_on_each_python(words: tuple[str, ...], command_of_each_python: Path, tmp_path: Path) -> None:
    said = ask(command_of_each_python, tmp_path, *words)
    if "--version" in words:
        assert said == f"dlc {dlc.__version__}\n"
    elif "exit-codes" in words:
        assert [str(code) for code in list_exit_codes()] == [line.split()[0] for line in said.splitlines()]
    else:
        assert [verb for verb in VERBS if f"  {verb} " not in said] == []


@pytest.mark.parametrize("verb", [*VERBS, *PLUMBING])
def test_every_verb_has_help(verb: str, command: Path, tmp_path: Path) -> None:
    assert f"dlc {verb}" in ask(command, tmp_path, verb, "--help").splitlines()[0]
    assert list(tmp_path.iterdir()) == []


def test_keys_of_the_installed_wheel_are_the_checkouts(command_of_each_python: Path, tmp_path: Path) -> None:
    """The checkout's are those that its own environment makes, whose packages are locked."""
    words = ("plan", "--json")
    locked = subprocess.check_output([TOOLS / "dlc", *words], cwd=ROOT, text=True, timeout=BOUND_SECONDS)
    expected, found = (
        {target["id"]: target["key"] for target in json.loads(said)["targets"]}
        for said in (locked, run_installed(command_of_each_python, tmp_path, *words).stdout)
    )
    assert found == expected


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (("pro",), ["profile", "promote"]),
        (("run", "x", "--distr"), ["--distributed"]),
        (("run", "pytorch-2.13"), ["pytorch-2.13-training-cpu-py311"]),
        (("logs", "2026"), ["20261120-093000-0a1b2c"]),
    ],
    ids=["verbs", "options", "images", "jobs"],
)
def test_bash_completes(typed: tuple[str, ...], expected: list[str], command: Path, tmp_path: Path) -> None:
    claim = tmp_path / "cache/jobs/20261120-093000-0a1b2c"
    claim.parent.mkdir(parents=True)
    claim.write_text("unix:///a.sock\n")
    argv = ["bash", "-c", COMPLETE, "bash", str(command), *typed]
    settings = {**os.environ, "DLC_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        argv, cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False
    )
    assert sorted(done.stdout.splitlines()) == expected, done.stderr


@pytest.mark.parametrize("stopped", [False, True], ids=["to its end", "by Ctrl-C"])
def test_a_job_of_two_hosts_has_its_results(stopped: bool, command: Path, folder: Path) -> None:
    """Each host has written a compiler's report, which is merged once the results are there."""
    (folder / "train.py").write_text(SCRIPT)
    words = ["run", "--hosts", "2", "--output", "results", "dlc/some:1", "train.py"]
    with (folder / "said").open("w") as said:
        job = subprocess.Popen(
            [command, *words, *(["--wait"] if stopped else [])],
            cwd=folder, stdout=subprocess.PIPE, stderr=said, text=True,
        )  # fmt: skip
    if stopped:
        assert job.stdout
        assert sorted(job.stdout.readline() for _ in range(2)) == ["[algo-1] ready\n", "[algo-2] ready\n"]
        job.send_signal(signal.SIGINT)
    job.communicate(timeout=BOUND_SECONDS)
    assert job.returncode == (Interrupted.exit_code if stopped else 0), (folder / "said").read_text()
    models = {path.name: path.read_text() for path in (folder / "results/model").iterdir()}
    assert models == {"algo-1": "trained", "algo-2": "trained"}
    reports = sorted(path.name for path in (folder / "results/output/compiler").iterdir())
    assert reports == ["rank-0-algo-2.json", "rank-0.json", "report.html", "report.json"]
    assert "the compiler's report of 2 hosts: " in (folder / "said").read_text()


@pytest.mark.parametrize(("system", "jobs"), [("github", "jobs"), ("gitlab", "stages"), ("codebuild", "batch")])
def test_a_projects_ci_file_is_written(system: str, jobs: str, command: Path, tmp_path: Path) -> None:
    [wheel] = (take_environment() / BUILT).glob("*.whl")
    done = run_installed(command, tmp_path, "init", "demo", "--tool", str(wheel))
    assert done.returncode == 0, done.stderr
    assert jobs in yaml.safe_load(ask(command, tmp_path / "demo", "ci", system))
