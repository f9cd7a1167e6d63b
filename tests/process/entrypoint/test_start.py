"""The launcher as it is started: isolated, without third-party code, on every Python that an image may have."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from real_launcher import LAUNCHER, TRAIN, make_venv

from harness.job_folder import MPI, TORCHRUN, JobFolder
from launch.plan.strategies import load_strategies

PYTHONS = [f"python3.{minor}" for minor in (9, 11, 13)]


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    """A job whose virtual environment is made of the Python that runs the tests."""
    return JobFolder(tmp_path / "ml").env(DLC_VENV=make_venv(tmp_path / "venv"))


def found(python: str) -> str:
    """That Python: on PATH, or among pyenv's, or where this machine has none the one that runs the tests."""
    candidates = [
        shutil.which(python),
        *sorted(map(str, Path.home().glob(f".pyenv/versions/{python[6:]}.*/bin/python"))),
    ]
    working = [
        path
        for path in candidates
        if path and subprocess.run([path, "-c", ""], capture_output=True, timeout=60, check=False).returncode == 0
    ]
    return working[0] if working else sys.executable


def launch(job: JobFolder, *arguments: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-I", "-S", *arguments], env=job.environ, capture_output=True, text=True, timeout=60, check=False
    )


def imports(stderr: str) -> set[str]:
    """The modules that -X importtime names."""
    return {line.rpartition("|")[2].strip() for line in stderr.splitlines() if line.startswith("import time:")}


@pytest.mark.parametrize("python", PYTHONS)
def test_it_explains_and_trains_on_every_python_of_an_image(job: JobFolder, python: str) -> None:
    job.code(text="import sys; print('args', sys.argv[1:]); sys.exit(3)").hyperparameters(lr=0.1)
    interpreter = found(python)
    explained = launch(job, LAUNCHER, "--explain=json", python=interpreter)
    assert json.loads(explained.stdout)["job"]["arguments"] == ["--lr", "0.1"]
    trained = launch(job, LAUNCHER, "train", python=interpreter)
    assert (trained.returncode, trained.stdout) == (3, "args ['--lr', '0.1']\n")
    assert "exited with code 3" in (job.base / "output/failure").read_text()


@pytest.mark.parametrize("strategy", [row.name for row in load_strategies()])
def test_every_strategy_is_planned_on_the_oldest_python(job: JobFolder, strategy: str) -> None:
    job.code().hyperparameters().env(DLC_STRATEGY=strategy, DLC_HOSTS="algo-1,algo-2", DLC_RANK="0")
    explained = launch(job, LAUNCHER, "--explain=json", python=found(PYTHONS[0]))
    assert json.loads(explained.stdout)["strategy"] == strategy


@pytest.mark.parametrize("verb", ["train", "--explain"])
def test_it_imports_nothing_but_the_standard_library(job: JobFolder, verb: str) -> None:
    job.code().hyperparameters()
    done = launch(job, "-X", "importtime", LAUNCHER, verb)
    assert done.returncode == 0
    roots = {module.split(".")[0] for module in imports(done.stderr)} - {"launch", "imported package"}
    foreign = {root for root in roots if root not in sys.stdlib_module_names}
    assert foreign == set()
    # What alone would eat the 30 ms that a start may take.
    assert roots & {"asyncio", "dataclasses", "inspect", "pathlib", "argparse", "logging", "urllib", "tarfile"} == set()


# Milliseconds each, and a job on one host has no use for them.
NOT_FOR_ONE_HOST = {
    *("typing", "importlib", "warnings"),
    *("socket", "selectors", "subprocess", "threading", "shutil", "tempfile", "hashlib", "hmac", "secrets"),
    *(
        "dlc_channel",
        "launch.multi_host",
        "launch.coordination.rendezvous",
        "launch.supervision.failure_cause",
        "launch.supervision.graceful_stop",
        "launch.supervision.stop_targets",
    ),
    *(f"launch.plan.strategies.{row.name}" for row in load_strategies()),
}


def test_a_plain_job_on_one_host_imports_nothing_that_only_others_need(job: JobFolder) -> None:
    job.code().hyperparameters()
    done = launch(job, "-X", "importtime", LAUNCHER, "train")
    assert done.returncode == 0
    assert "launch.supervision.supervisor" in imports(done.stderr)
    # From Python 3.14 on ctypes imports it.
    own = {"threading"} if sys.version_info >= (3, 14) else set()
    assert imports(done.stderr) & NOT_FOR_ONE_HOST <= own


def test_a_plain_job_loads_nothing_that_only_the_compiler_needs(job: JobFolder) -> None:
    job.code(text="import os; print(*(name for name in os.environ if 'COMPILER' in name or 'XLA' in name))")
    job.env(DLC_COMPILER_DEFAULT="inductor").hyperparameters()
    done = launch(job, "-X", "importtime", LAUNCHER, "train")
    assert (done.returncode, done.stdout.split()) == (0, ["DLC_COMPILER_DEFAULT"])
    assert {name for name in imports(done.stderr) if name.startswith("launch.plan.compiler")} == {
        "launch.plan.compiler_choice",
    }


def test_a_folder_full_of_modules_with_standard_names_changes_nothing(job: JobFolder) -> None:
    """The working directory and the variables of the user do not reach the launcher's own interpreter."""
    job.code(["json.py", "signal.py", "launch.py"], "raise SystemExit('shadowed')").code().hyperparameters()
    done = subprocess.run(
        [sys.executable, "-I", "-S", LAUNCHER, "--explain"],
        env={**job.environ, "PYTHONPATH": str(job.base / "code")},
        cwd=job.base / "code",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_explain_starts_and_writes_nothing(job: JobFolder) -> None:
    job.code(text="open('started', 'w')").hyperparameters(sagemaker_mpi_enabled=True)
    before = sorted(job.base.rglob("*"))
    done = launch(job, LAUNCHER, "--explain")
    assert done.returncode == 0
    assert "mpirun" in done.stdout
    assert sorted(job.base.rglob("*")) == before


def test_any_other_command_is_executed_with_the_images_python_first(job: JobFolder) -> None:
    done = launch(job, LAUNCHER, "python", "-c", "import sys; print(sys.argv, sys.executable)", "a b")
    assert done.stdout == f"['-c', 'a b'] {job.environ['DLC_VENV']}/bin/python\n"
    assert launch(job, LAUNCHER, "sh", "-c", "exit 7").returncode == 7


def test_any_other_command_gets_the_signals_that_python_ignores(job: JobFolder) -> None:
    done = launch(job, LAUNCHER, "grep", "SigIgn", "/proc/self/status")
    ignored = int(done.stdout.split()[1], 16)
    for signum in (signal.SIGPIPE, signal.SIGXFSZ):
        assert not ignored >> (signum - 1) & 1


def test_a_stop_before_any_other_command_was_started_is_not_lost(job: JobFolder) -> None:
    source = (
        f"import os, signal, sys; sys.path.insert(0, {str(Path(LAUNCHER).parent)!r})\n"
        "from launch import main, signals\n"
        "signals.arm(); os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.exit(main.main(['echo', 'started'], os.environ))"
    )
    done = launch(job, "-c", source)
    assert (done.returncode, done.stdout) == (143, "")


def test_after_a_stop_that_came_first_a_second_one_does_not_interrupt_the_goodbye(job: JobFolder) -> None:
    source = (
        f"import os, signal, sys; sys.path.insert(0, {str(Path(LAUNCHER).parent)!r})\n"
        "from launch import signals\n"
        "signals.arm(); os.kill(os.getpid(), signal.SIGTERM)\n"
        "try:\n"
        "    with signals.Interrupting(): print('begun')\n"
        "except signals.StopRequested:\n"
        "    os.kill(os.getpid(), signal.SIGTERM); print('goodbye')"
    )
    done = launch(job, "-c", source)
    assert (done.returncode, done.stdout, done.stderr) == (0, "goodbye\n", "")


def test_a_stop_while_python_ends_changes_no_exit_code(job: JobFolder) -> None:
    source = (
        "import os, runpy, signal, sys\n"
        "class Late:\n"
        "    def __del__(self, kill=os.kill, pid=os.getpid(), signum=signal.SIGTERM): kill(pid, signum)\n"
        "late = Late()\n"
        "sys.argv = ['launcher.py', '--help']\n"
        f"runpy.run_path({LAUNCHER!r}, run_name='__main__')"
    )
    assert launch(job, "-c", source).returncode == 0


def test_a_command_that_is_not_there_is_127_and_one_that_cannot_be_executed_126(job: JobFolder) -> None:
    assert launch(job, LAUNCHER, "no-such-command").returncode == 127
    assert launch(job, LAUNCHER, str(job.base)).returncode == 126


def test_folders_may_be_stated_as_seen_from_the_launchers_own(job: JobFolder, tmp_path: Path) -> None:
    job.code(text="import os; print(os.environ['SM_MODEL_DIR'])").hyperparameters()
    names = {"SAGEMAKER_BASE_DIR": str(job.base), "DLC_VENV": job.environ["DLC_VENV"]}
    job.env(**{name: os.path.relpath(folder, tmp_path) for name, folder in names.items()})
    done = subprocess.run(TRAIN, env=job.environ, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, f"{job.base}/model\n")


def test_a_process_whose_variables_are_too_long_together_is_a_failure_that_says_so(job: JobFolder) -> None:
    job.code().hyperparameters(large="x" * 100_000)  # four times, as arguments and as variables
    job.env(**{f"LARGE_{number}": "x" * 110_000 for number in range(16)})  # 2 MiB is what the kernel takes
    done = launch(job, LAUNCHER, "train")
    assert done.returncode == 126
    assert "too long together: pass large values in a file" in (job.base / "output/failure").read_text()


def test_without_a_command_it_shows_how_it_is_used(job: JobFolder) -> None:
    done = launch(job, LAUNCHER)
    assert done.returncode == 64
    assert "usage: docker run IMAGE train" in done.stderr
    assert launch(job, LAUNCHER, "--help").returncode == 0


def test_arguments_of_train_follow_the_hyperparameters(job: JobFolder) -> None:
    job.code(text="import sys; print(sys.argv[1:])").hyperparameters(lr=1)
    assert launch(job, LAUNCHER, "train", "--epochs", "a b").stdout == "['--lr', '1', '--epochs', 'a b']\n"
    explained = json.loads(launch(job, LAUNCHER, "--explain=json", "train", "--epochs", "2").stdout)
    assert explained["processes"][0]["argv"][-4:] == ["--lr", "1", "--epochs", "2"]


def test_variables_that_are_no_text_reach_the_script_as_they_are(job: JobFolder) -> None:
    job.code(["caf\udce9.py"], "import os; print(os.environb[b'OWN'])").hyperparameters()
    job.env(OWN="\udcff", SAGEMAKER_PROGRAM="caf\udce9.py")
    assert launch(job, LAUNCHER, "--explain").returncode == 0
    assert launch(job, LAUNCHER, "train").stdout == "b'\\xff'\n"


@pytest.mark.parametrize(
    ("program", "strategy", "code"), [("mpirun", MPI, 0), ("mpirun", MPI, 3), ("torchrun", TORCHRUN, 3)]
)
def test_a_job_that_empties_the_launchers_own_folder_keeps_its_exit_code(
    job: JobFolder, tmp_path: Path, program: str, strategy: dict[str, bool], code: int
) -> None:
    starter = Path(job.environ["DLC_VENV"]) / "bin" / program
    starter.write_text(f"#!/bin/sh\nrm -r {tmp_path}/run\nexit {code}\n")
    starter.chmod(0o755)
    job.code().hyperparameters(**strategy).env(DLC_RUN_DIR=str(tmp_path / "run"))
    done = launch(job, LAUNCHER, "train")
    assert (done.returncode, "internal error" in done.stderr) == (code, False)


@pytest.fixture
def with_pip(job: JobFolder) -> JobFolder:
    """A job whose environment is that of the tests: Debian's own Python, which others lead to, may have no pip."""
    return job.env(DLC_VENV=sys.prefix)


def test_requirements_are_installed_before_the_script_starts(with_pip: JobFolder) -> None:
    job = with_pip
    job.code(["requirements.txt"], "--no-index\n").code(text="print('trained')").hyperparameters()
    done = launch(job, LAUNCHER, "train")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "trained")


def test_requirements_that_cannot_be_installed_end_the_job_with_pips_own_words(with_pip: JobFolder) -> None:
    job = with_pip
    job.code(["requirements.txt"], "--no-index\nno-such-package-at-all\n").code(text="print('trained')")
    done = launch(job.hyperparameters(), LAUNCHER, "train")
    assert done.returncode == 69
    assert "trained" not in done.stdout
    reason = (job.base / "output/failure").read_text()
    assert reason.startswith("requirements.txt could not be installed")
    assert "rank" not in reason.splitlines()[0]
    assert "no-such-package-at-all" in reason


def test_serving_strangers_imports_nothing_later(job: JobFolder) -> None:
    """When they have used up all descriptors no file can be opened any more, a module's neither."""
    source = (
        f"import sys; sys.path.insert(0, {str(Path(LAUNCHER).parent)!r})\n"
        "import launch.coordination.coordinator\n"
        "from dlc_channel.channel import PendingConnections\n"
        "known = set(sys.modules); crowd = PendingConnections(1)\n"
        "class One: opened_at = 0.0\n"
        "crowd.add(One(), 'a'); crowd.add(One(), 'b'); crowd.overdue(1.0)\n"
        "print(set(sys.modules) - known)"
    )
    assert launch(job, "-c", source).stdout == "set()\n"
