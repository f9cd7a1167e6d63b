"""A user who may write nowhere but below /tmp gets a home, a name and a place for packages; nobody else gets any."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_launcher import LAUNCHER

from harness.empty_wheel import write_wheel
from harness.job_folder import JobFolder
from launch.plan import install

UID = 54321  # has no entry in /etc/passwd
BOUND = 120  # seconds; only a hang takes that long
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts processes as another user")


@pytest.fixture
def folders() -> Iterator[Path]:
    """A folder that everybody may pass, which holds a copy of the launcher: the checkout may be root's alone.

    Not below pytest's own folders: each start of pytest closes these to others again.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o711)
        shutil.copytree(Path(LAUNCHER).parent, folder / "entrypoint", ignore=shutil.ignore_patterns("__pycache__"))
        yield folder


def made_venv(folder: Path) -> Path:
    """A virtual environment of root's, as an image has it, with pip."""
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", folder / "venv"], check=True, timeout=BOUND)
    [packages] = (folder / "venv").glob("lib/python3*/site-packages")
    import pip

    shutil.copytree(Path(pip.__file__).parent, packages / "pip", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True, timeout=BOUND)
    return folder / "venv"


def train_as_user(folders: Path, job: JobFolder, venv: Path, cwd: Path = Path("/")) -> subprocess.CompletedProcess[str]:
    """By setpriv, for subprocess changes the user before the folder."""
    subprocess.run(["chown", "-R", f"{UID}:{UID}", str(job.base)], check=True, timeout=BOUND)
    job.env(DLC_VENV=str(venv), HOME="/", DLC_RUN_DIR=str(job.base / "private"))
    user = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
    command = [*user, "/usr/bin/python3", "-I", "-S", str(folders / "entrypoint/launcher.py"), "train"]
    return subprocess.run(command, env=job.environ, capture_output=True, text=True, timeout=BOUND, check=False, cwd=cwd)


@as_root
def test_a_user_without_a_home_and_a_name_gets_both(folders: Path) -> None:
    script = "import getpass, os; os.makedirs(os.path.expanduser('~/.x')); print(getpass.getuser(), os.environ['HOME'])"
    job = JobFolder(folders / "ml").hyperparameters().code(text=script)
    done = train_as_user(folders, job, made_venv(folders))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{UID} {job.base}/private/home\n"


@as_root
def test_any_command_of_such_a_user_gets_both_too(folders: Path) -> None:
    script = "import getpass, os; os.makedirs(os.path.expanduser('~/.x')); print(getpass.getuser(), os.environ['HOME'])"
    (folders / "made").mkdir()
    os.chown(folders / "made", UID, UID)
    user = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
    launcher = ["/usr/bin/python3", "-I", "-S", str(folders / "entrypoint/launcher.py")]
    environ = {"HOME": "/", "DLC_RUN_DIR": str(folders / "made/private"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [*user, *launcher, "python3", "-c", script], env=environ, capture_output=True, text=True, check=False, cwd="/"
    )
    assert done.stdout == f"{UID} {folders}/made/private/home\n", done.stderr


@as_root
@pytest.mark.parametrize("mode", [0o711, 0o700])
def test_a_working_directory_that_the_user_may_not_read_or_enter_does_not_matter(folders: Path, mode: int) -> None:
    roots = folders / "roots"
    roots.mkdir(mode=mode)
    job = JobFolder(folders / "ml").hyperparameters().code(text="import os; print(os.getcwd())")
    done = train_as_user(folders, job, made_venv(folders), roots)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{job.base}/code\n"


@as_root
def test_requirements_of_a_user_who_may_not_write_to_the_image_go_elsewhere_and_are_seen(folders: Path) -> None:
    wheels = folders / "wheels"
    write_wheel(wheels, "fresh", "1")
    write_wheel(wheels, "newer", "2")
    venv = made_venv(folders)
    [packages] = venv.glob("lib/python3*/site-packages")
    for name in ("newer", "present"):
        folder = packages / f"{name}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    job = JobFolder(folders / "ml").hyperparameters()
    job.code(["requirements.txt"], f"--no-index\n--find-links {wheels}\nfresh\nnewer>=2\npresent\n")
    job.code(text="from importlib.metadata import version; print(version('fresh'), version('newer'))")
    done = train_as_user(folders, job, venv)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "1 2"
    assert (packages / "newer-1.dist-info").exists()


def test_who_may_write_to_home_and_image_keeps_both(tmp_path: Path) -> None:
    (tmp_path / "lib/python3.11/site-packages").mkdir(parents=True)
    home = {"HOME": str(tmp_path), "PATH": "/bin", "PYTHONPATH": "/code"}
    assert install.home_variables(home, str(tmp_path / "run")) == {}
    assert install.package_variables(home, str(tmp_path), str(tmp_path / "run")) == {}
    assert install.pip_installer(home, str(tmp_path), str(tmp_path / "run")) == f"{tmp_path}/bin/python"


def test_where_nothing_can_be_written_the_home_stays_as_it_is() -> None:
    assert install.home_variables({"HOME": "/proc"}, "/proc/none") == {}
