"""The launcher in an image: any command runs, `--explain` explains, the peer toolkit's Environment works beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.container import Container
from harness.engine import run_once
from harness.images import Image
from harness.opt_ml import lay_out

pytestmark = pytest.mark.container

SCRIPTS = Path(__file__).parent / "scripts"
LAUNCHER = "/opt/dlc/entrypoint/launcher.py"
READ_ENVIRONMENT = """
import json
from sagemaker_training import environment
env = environment.Environment()
print(json.dumps([env.hosts, env.current_host, env.hyperparameters, env.model_dir, env.user_entry_point]))
"""


@pytest.fixture
def opt_ml(tmp_path: Path) -> Path:
    """A host's /opt/ml with one hyperparameter and a script that says hello."""
    return lay_out(tmp_path / "ml", SCRIPTS / "say_hello.py", hyperparameters={"epochs": 3})


def mounted(opt_ml: Path) -> tuple[str, ...]:
    """Options of docker run."""
    return ("--volume", f"{opt_ml}:/opt/ml")


def test_any_command_runs_with_the_images_python(image: Image) -> None:
    done = run_once(image.ref, "python", "-c", "import sys; print(sys.executable, sys.argv[1])", "it's one argument")
    assert (done.returncode, done.stdout) == (0, "/opt/venv/bin/python it's one argument\n"), done.stderr


def test_the_exit_code_of_any_command_is_kept(image: Image) -> None:
    assert run_once(image.ref, "sh", "-c", "exit 37").returncode == 37


def test_an_unknown_command_is_named_with_what_can_be_run(image: Image) -> None:
    done = run_once(image.ref, "trian")
    assert done.returncode == 127
    assert "trian" in done.stderr
    assert "docker run IMAGE train" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_mpirun_that_the_user_types_starts_ranks_that_may_use_every_core(image: Image) -> None:
    # One write for a line: two ranks write to one output.
    program = "import os; size, cores = os.environ['OMPI_COMM_WORLD_SIZE'], len(os.sched_getaffinity(0))"
    program += "; os.write(1, f'{size} of {cores} cores\\n'.encode())"
    cores = run_once(image.ref, "python", "-c", "import os; print(len(os.sched_getaffinity(0)))").stdout.strip()
    done = run_once(image.ref, "mpirun", "--oversubscribe", "-np", "2", "python", "-c", program)
    assert (done.returncode, done.stdout) == (0, f"2 of {cores} cores\n" * 2), done.stderr


def test_tini_is_the_first_process(image: Image) -> None:
    assert run_once(image.ref, "cat", "/proc/1/comm").stdout == "tini\n"


def test_train_runs_the_users_script(image: Image, opt_ml: Path) -> None:
    done = run_once(image.ref, "train", options=mounted(opt_ml))
    assert done.returncode == 0, done.stderr
    assert "hello from ['--epochs', '3']" in done.stdout


def test_explain_shows_the_process_and_starts_nothing(image: Image, opt_ml: Path) -> None:
    done = run_once(image.ref, "--explain=json", options=mounted(opt_ml))
    assert done.returncode == 0, done.stderr
    [process] = json.loads(done.stdout)["processes"]
    assert process["argv"][-2:] == ["--epochs", "3"]
    assert process["argv"][0] == "/opt/venv/bin/python"
    assert "hello from" not in done.stdout
    assert not (opt_ml / "model").exists(), "--explain writes nothing"


def test_a_broken_config_file_is_named_in_one_line_and_nothing_starts(image: Image, opt_ml: Path) -> None:
    (opt_ml / "input/config/hyperparameters.json").write_text('{"epochs": ')
    done = run_once(image.ref, "train", options=mounted(opt_ml))
    assert 64 <= done.returncode <= 78
    assert "hyperparameters.json" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "hyperparameters.json" in (opt_ml / "output" / "failure").read_text()


def test_the_toolkits_environment_can_be_read_inside(image: Image, opt_ml: Path) -> None:
    done = run_once(image.ref, "python", "-c", READ_ENVIRONMENT, options=mounted(opt_ml))
    assert done.returncode == 0, done.stderr
    hosts, current, hyperparameters, model, program = json.loads(done.stdout.splitlines()[-1])
    assert (hosts, current, hyperparameters) == (["algo-1"], "algo-1", {"epochs": 3})
    assert (model, program) == ("/opt/ml/model", "say_hello.py")


def test_the_launcher_is_compiled_and_only_root_may_change_it(container: Container) -> None:
    launcher = container.host.file(LAUNCHER)
    assert (launcher.user, launcher.mode & 0o022) == ("root", 0)
    assert container.find("-name", "*.pyc", below=("/opt/dlc/entrypoint/launch",))


def test_the_launcher_needs_the_standard_library_only(container: Container) -> None:
    """Started as the entrypoint starts it, without any site-packages: what it imports comes with Python."""
    _, _, errors = container.try_to("/usr/bin/python3", "-I", "-S", "-X", "importtime", LAUNCHER, "--explain")
    assert "launch.main" in errors
    assert "site-packages" not in errors
    assert "dist-packages" not in errors
