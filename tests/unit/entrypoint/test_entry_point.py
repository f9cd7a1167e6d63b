"""Entry points: every type, every spelling of a path, and the error that names what is there instead."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from harness.job_folder import JobFolder
from launch.base.errors import LaunchError
from launch.job import entry_point
from launch.plan import install
from launch.plan.host_plan import make_host_plan
from launch.plan.request import read_request

PYTHON = "/opt/venv/bin/python"


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path / "ml").hyperparameters(lr=1)


def command(job: JobFolder, program: str) -> list[str]:
    argv: list[str] = job.env(SAGEMAKER_PROGRAM=program).process()["argv"]
    return argv


def pip(job: JobFolder, program: str = "train.py") -> tuple[str, ...]:
    before = job.env(SAGEMAKER_PROGRAM=program).explain()["before"]
    return tuple(before[0]["argv"][5:]) if before else ()  # python pip_install.py install OPTION OPTION


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


@pytest.mark.parametrize(
    ("program", "file"), [("run.sh", "setup.py"), ("run.sh", "pyproject.toml"), ("run", "pyproject.toml")]
)
def test_a_shell_script_or_executable_installs_a_package_beside_it_by_itself(
    job: JobFolder, program: str, file: str
) -> None:
    job.code([file], "[build-system]\n").code([program], "#!/bin/sh\n")
    assert pip(job, program) == ()
    assert pip(job.code(["requirements.txt"]), program) == ("-r", "requirements.txt")


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


def test_a_text_that_names_no_interpreter_is_a_shells_as_a_shell_would_have_it(job: JobFolder) -> None:
    assert command(job.code(["bin/tool"], "echo"), "bin/tool") == ["/bin/sh", "./bin/tool", "--lr", "1"]


@pytest.mark.parametrize(
    ("text", "interpreter"),
    [("#! /usr/bin/env python3 -u\n\0", ["/usr/bin/env", "python3 -u"]), ("#!\necho", ["/bin/sh"]), ("", [])],
    ids=["archive after a script", "nothing named", "empty"],
)
def test_the_first_line_of_an_executable_says_what_runs_it(job: JobFolder, text: str, interpreter: list[str]) -> None:
    assert command(job.code(["tool"], text), "tool") == [*interpreter, "./tool", "--lr", "1"]


def test_requirements_are_installed_for_scripts_and_for_shell_scripts_alike(job: JobFolder) -> None:
    job.code(["train.py", "run.sh", "requirements.txt"])
    assert pip(job) == pip(job, "run.sh") == ("-r", "requirements.txt")
    assert job.explain()["before"][0]["argv"][0] == PYTHON


def test_packages_of_a_private_repository_are_installed_by_the_program_that_logs_in(job: JobFolder) -> None:
    job.code(["train.py", "requirements.txt"])
    (plain,) = job.explain()["before"]
    assert plain["argv"][1].endswith("/programs/pip_install.py")
    (private,) = job.env(CA_REPOSITORY_ARN="arn:aws:codeartifact:x").explain()["before"]
    assert private["argv"][1].endswith("/programs/codeartifact_pip.py")
    assert private["argv"][2:] == ["arn:aws:codeartifact:x", *plain["argv"][2:]]
    assert (private["role"], private["rank"], private["failure"]) == (
        "install", -1, "requirements.txt could not be installed",
    )  # fmt: skip
    (package,) = JobFolder(job.base / "other").code(["setup.py"]).env(SAGEMAKER_PROGRAM="a.py").explain()["before"]
    assert package["failure"] == "the package could not be installed"


@pytest.mark.parametrize("name", ["lib/python3.11/site-packages", ""])
def test_packages_go_below_the_run_directory_if_the_image_takes_none(
    job: JobFolder, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder without packages is no environment that they could be added to."""
    (job.base / "venv" / name).mkdir(parents=True)
    job.code(["train.py", "requirements.txt"]).env(DLC_VENV=str(job.base / "venv"), DLC_RUN_DIR=str(job.base / "run"))
    installed_in_place = job.explain()
    monkeypatch.setattr(install.os, "access", lambda *_: False)
    monkeypatch.setattr(install, "can_make_folder", lambda _: True)
    found = job.explain()
    own = "/opt/ml/run/packages"
    assert installed_in_place["before"][0]["argv"][0] == "/opt/ml/venv/bin/python"
    assert found["before"][0]["argv"][0] == (f"{own}/bin/python" if name else "/opt/ml/venv/bin/python")
    path = found["env"]["PYTHONPATH"].split(":")
    assert path[:-1] == (["/opt/ml/code", f"{own}/{name}"] if name else ["/opt/ml/code"])
    assert found["env"]["PATH"].startswith(f"{own}/bin:/opt/ml/venv/bin:") == bool(name)
    monkeypatch.setattr(install, "can_make_folder", lambda _: False)
    assert own not in job.explain()["env"]["PATH"]


def test_a_home_that_cannot_be_written_to_is_replaced_and_a_user_without_a_name_gets_a_number(
    job: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(install.os, "access", lambda *_: False)
    monkeypatch.setattr(install, "can_make_folder", lambda _: True)
    home = {"HOME": "/run/x/home"}
    assert install.home_variables({"HOME": "/"}, "/run/x") == home
    assert install.home_variables({}, "/run/x") == install.home_variables({"HOME": ""}, "/run/x") == {}
    monkeypatch.setattr(pwd, "getpwuid", lacks)
    monkeypatch.setattr(install.os, "geteuid", lambda: 1234)
    assert install.home_variables({"HOME": "/"}, "/run/x") == {**home, "USER": "1234"}
    assert install.home_variables({"HOME": "/", "USER": "me"}, "/run/x") == {**home, "USER": "me"}


def test_a_folder_that_cannot_be_made_is_named_with_the_reason_and_a_command_goes_on_without(
    job: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = job.base / "run"
    run.mkdir(mode=0o700)
    (run / "home").touch()
    context = make_host_plan(read_request(job.code().environ)).context
    with pytest.raises(LaunchError, match=f"{run}: cannot be made; .*File exists"):
        install.make_own_folders(context._replace(run_dir=str(run), env={**context.env, "HOME": f"{run}/home"}))
    monkeypatch.setattr(install.os, "access", lambda *_: False)
    monkeypatch.setattr(install, "can_make_folder", lambda _: True)
    assert install.make_home({"HOME": "/"}, str(run)) == {}
    (run / "home").unlink()
    assert install.make_home({"HOME": "/"}, str(run))["HOME"] == f"{run}/home"
    assert (run / "home").is_dir()


def test_the_home_that_the_launcher_makes_is_private_and_may_be_there_already(job: JobFolder) -> None:
    context = make_host_plan(read_request(job.code().environ)).context
    home = job.base / "run/home"
    own = context._replace(run_dir=str(home.parent), env={**context.env, "HOME": str(home)})
    for _ in range(2):
        install.make_own_folders(own)
    assert [folder.stat().st_mode & 0o777 for folder in (home.parent, home)] == [0o700, 0o700]


def test_nothing_is_installed_where_nothing_is_asked_for(job: JobFolder) -> None:
    assert pip(job.code()) == ()


def test_a_program_that_is_not_there_is_an_error_that_says_what_is(job: JobFolder) -> None:
    code = str(job.code(["b.py", "a.py"]).base / "code")
    with pytest.raises(LaunchError, match=r"nope.py: no such entry point; .*; found a.py, b.py$") as error:
        entry_point.check_entry_point(entry_point.resolve_entry_point("nope.py", code), code)
    assert error.value.exit_code == 66


def test_of_many_files_only_some_are_named(job: JobFolder) -> None:
    code = str(job.code([f"f{number:02d}.py" for number in range(30)]).base / "code")
    assert entry_point.list_contents(code).endswith("f09.py and 20 more")


def test_an_empty_code_directory_is_called_empty(job: JobFolder) -> None:
    (job.base / "code").mkdir()
    assert entry_point.list_contents(str(job.base / "code")) == f"an empty directory {job.base}/code"


@pytest.mark.parametrize("program", ["-m pkg.train", "-mpkg.train", "-m  pkg.train"])
def test_a_module_is_run_as_a_module(job: JobFolder, program: str) -> None:
    job.code(["pkg/__init__.py", "pkg/train.py"])
    assert command(job, program) == [PYTHON, "-m", "pkg.train", "--lr", "1"]
    env = job.explain()["env"]
    assert (env["SM_MODULE_NAME"], env["SM_USER_ENTRY_POINT"]) == ("pkg.train", "-m pkg.train")


@pytest.mark.parametrize("strategy", ["torchrun", "xla", "mpi"])
def test_a_script_whose_name_begins_with_a_dash_is_no_option_of_what_starts_it(job: JobFolder, strategy: str) -> None:
    job.code(["-x.py"]).env(DLC_STRATEGY=strategy)
    assert command(job, "-x.py")[-3:] == ["./-x.py", "--lr", "1"]


def test_torchrun_runs_a_module_too(job: JobFolder) -> None:
    job.code(["pkg/train.py"]).env(DLC_STRATEGY="torchrun")
    assert command(job, "-m pkg.train")[-5:] == ["-m", "--", "pkg.train", "--lr", "1"]


def test_mpi_runs_a_module_too(job: JobFolder) -> None:
    job.code(["pkg/train.py"]).env(DLC_STRATEGY="mpi")
    assert command(job, "-m pkg.train")[-6:] == ["-m", "mpi4py", "-m", "pkg.train", "--lr", "1"]


@pytest.mark.parametrize("program", ["-m", "-m ../train", "-m a..b", "-m os; x"])
def test_what_is_no_modules_name_is_not_run_as_one(job: JobFolder, program: str) -> None:
    code = job.code().base / "code"
    with pytest.raises(LaunchError):
        entry_point.check_entry_point(entry_point.resolve_entry_point(program, str(code)), str(code))


def venv_with(job: JobFolder, name: str) -> Path:
    script = job.base / "venv/bin" / name
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    job.env(DLC_VENV=str(job.base / "venv"))
    return script


def test_a_console_script_of_the_image_is_run_by_its_name(job: JobFolder) -> None:
    venv_with(job, "accelerate")
    assert command(job.code(), "accelerate") == ["/opt/ml/venv/bin/accelerate", "--lr", "1"]


def test_a_file_of_the_code_comes_before_a_console_script(job: JobFolder) -> None:
    venv_with(job, "tool")
    assert command(job.code(["tool"], "\x7fELF"), "tool") == ["./tool", "--lr", "1"]


@pytest.mark.parametrize(("file", "program"), [("requirements.txt", "torchtune"), ("setup.py", "train-it")])
def test_a_console_script_may_come_with_what_is_installed_first(job: JobFolder, file: str, program: str) -> None:
    job.code([file])
    assert command(job, program) == [f"/opt/venv/bin/{program}", "--lr", "1"]
    entry_point.check_entry_point(
        entry_point.resolve_entry_point(program, str(job.base / "code")), str(job.base / "code")
    )


def test_a_packages_module_stays_a_module(job: JobFolder) -> None:
    assert command(job.code(["setup.py"]), "train") == [PYTHON, "-m", "train", "--lr", "1"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("run.sh", b"#!/bin/bash\r\npython train.py\r\n", ["Windows (CRLF)", r"sed -i 's/\r$//' run.sh"]),
        ("train.ipynb", b'{"cells": []}', ["a notebook is no program", "jupyter nbconvert --to script train.ipynb"]),
        ("part/train.py", b"", ["part: a folder is no entry point", "found train.py", "such as part/train.py"]),
    ],
)
def test_what_cannot_run_as_it_is_is_refused_with_a_remedy(
    tmp_path: Path, name: str, content: bytes, words: list[str]
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)
    program = name.partition("/")[0]
    with pytest.raises(LaunchError) as error:
        entry_point.check_entry_point(entry_point.resolve_entry_point(program, str(tmp_path)), str(tmp_path))
    assert [word for word in words if word not in str(error.value)] == []


def test_a_python_script_may_have_the_line_ends_of_windows(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes(b"print(1)\r\n")
    entry_point.check_entry_point(entry_point.resolve_entry_point("train.py", str(tmp_path)), str(tmp_path))
