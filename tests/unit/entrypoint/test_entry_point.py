"""Entry points: every type, every spelling of a path, and the error that names what is there instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from job_folder import JobFolder

from launch.base.errors import LaunchError
from launch.job import entry_point

PYTHON = "/opt/venv/bin/python"


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path / "ml").hyperparameters(lr=1)


def command(job: JobFolder, program: str) -> list[str]:
    argv: list[str] = job.env(SAGEMAKER_PROGRAM=program).process()["argv"]
    return argv


def pip(job: JobFolder, program: str = "train.py") -> tuple[str, ...]:
    before = job.env(SAGEMAKER_PROGRAM=program).explain()["before"]
    return tuple(before[0]["argv"][5:]) if before else ()


@pytest.mark.parametrize("program", ["train.py", "./train.py", "a/../train.py", "{code}/train.py", "{code}/./train.py"])
def test_a_script_may_be_spelled_in_any_way_below_the_code_directory(job: JobFolder, program: str) -> None:
    job.code()
    assert command(job, program.format(code=job.base / "code")) == [PYTHON, "--", "train.py", "--lr", "1"]


@pytest.mark.parametrize("name", ["my train.py", "-x.py", "dir/my script.py", "héllo.py", "a;b.py"])
def test_a_name_is_a_name_whatever_its_characters(job: JobFolder, name: str) -> None:
    assert command(job.code([name]), name) == [PYTHON, "--", name, "--lr", "1"]


@pytest.mark.parametrize("program", ["..", ".", "../train.py", "/etc/passwd", "a/../../x.py", "/opt/ml/codex/t.py"])
def test_a_program_outside_of_the_code_directory_is_an_error(job: JobFolder, program: str) -> None:
    with pytest.raises(LaunchError, match="outside the code directory") as error:
        command(job.code(), program)
    assert error.value.exit_code == 78


def test_a_package_is_installed_and_run_as_a_module(job: JobFolder) -> None:
    job.code(["setup.py", "pkg/module.py", "requirements.txt"])
    assert command(job, "pkg/module.py") == [PYTHON, "-m", "pkg.module", "--lr", "1"]
    assert pip(job, "pkg/module.py") == (".", "-r", "requirements.txt")


def test_a_pyproject_with_a_build_system_is_a_package(job: JobFolder) -> None:
    job.code(["pyproject.toml"], "[project]\nname='x'\n[build-system] # how\nrequires=[]\n")
    assert command(job, "pkg.py") == [PYTHON, "-m", "pkg", "--lr", "1"]
    assert pip(job, "pkg.py") == (".",)


def test_a_script_beside_a_buildable_pyproject_stays_a_script_and_the_package_is_installed(job: JobFolder) -> None:
    job.code(["pyproject.toml"], "[build-system]\n").code()
    assert command(job, "train.py") == [PYTHON, "--", "train.py", "--lr", "1"]
    assert pip(job) == (".",)


def test_a_pyproject_that_only_configures_tools_is_no_package(job: JobFolder) -> None:
    job.code(["pyproject.toml"], "[tool.ruff]\n[project]\n").code()
    assert pip(job) == ()


def test_a_shell_script_runs_below_the_interpreter_that_it_names(job: JobFolder) -> None:
    job.code(["run.sh"], "#!/usr/bin/env bash\n")
    assert command(job, "run.sh") == ["/usr/bin/env", "bash", "./run.sh", "--lr", "1"]


def test_a_shell_script_that_names_none_runs_below_sh(job: JobFolder) -> None:
    assert command(job.code(["run.sh"], "echo"), "run.sh") == ["/bin/sh", "./run.sh", "--lr", "1"]


def test_an_executable_is_executed(job: JobFolder) -> None:
    assert command(job.code(["bin/tool"], "\x7fELF"), "bin/tool") == ["./bin/tool", "--lr", "1"]


def test_requirements_are_installed_for_scripts_and_for_shell_scripts_alike(job: JobFolder) -> None:
    job.code(["train.py", "run.sh", "requirements.txt"])
    assert pip(job) == pip(job, "run.sh") == ("-r", "requirements.txt")


def test_nothing_is_installed_where_nothing_is_asked_for(job: JobFolder) -> None:
    assert pip(job.code()) == ()


def test_a_program_that_is_not_there_is_an_error_that_says_what_is(job: JobFolder) -> None:
    code = str(job.code(["b.py", "a.py"]).base / "code")
    with pytest.raises(LaunchError, match=r"nope.py: no such entry point; .*; found a.py, b.py$") as error:
        entry_point.check(entry_point.resolve("nope.py", code), code)
    assert error.value.exit_code == 66


def test_of_many_files_only_some_are_named(job: JobFolder) -> None:
    code = str(job.code([f"f{number:02d}.py" for number in range(30)]).base / "code")
    assert entry_point.contents(code).endswith("f09.py and 20 more")


def test_an_empty_code_directory_is_called_empty(job: JobFolder) -> None:
    (job.base / "code").mkdir()
    assert entry_point.contents(str(job.base / "code")) == f"an empty directory {job.base}/code"
