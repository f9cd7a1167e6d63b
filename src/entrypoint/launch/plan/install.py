"""What the user's code needs before it runs: requirements.txt, the package itself, a home where the user may write."""

from __future__ import annotations

import os
from collections.abc import Mapping

from launch.base import process_spec
from launch.base.errors import CANNOT_CREATE, LaunchError
from launch.base.files import PRIVATE_REMEDY, can_make_folder, make_private_folder, package_folders
from launch.base.process_spec import ProcessSpec
from launch.job.entry_point import EXECUTABLE, SHELL, EntryPoint, is_buildable
from launch.plan.context import Context

REQUIREMENTS = "requirements.txt"


def pip_arguments(entry: EntryPoint, folder: str) -> tuple[str, ...]:
    """Return what pip is to install for the code that `folder` shows, () for nothing.

    Shell scripts and executables get their requirements too, which SageMaker's toolkit leaves out. Like there they
    get no package: they install it themselves where they want it, and its build may need what this job cannot reach.
    """
    package = (".",) if is_buildable(folder) and entry.kind not in (SHELL, EXECUTABLE) else ()
    requirements = ("-r", REQUIREMENTS) if os.path.isfile(f"{folder}/{REQUIREMENTS}") else ()
    return (*package, *requirements)


def pip_processes(context: Context, folder: str) -> tuple[ProcessSpec, ...]:
    """Return the pip command for the code that `folder` shows, () if there is nothing to install."""
    what = pip_arguments(context.entry, folder)
    if not what:
        return ()
    repository = context.environ.get("CA_REPOSITORY_ARN")
    pip = (
        (process_spec.program_path("codeartifact_pip"), repository)
        if repository
        else (process_spec.program_path("pip_install"),)
    )
    python = pip_installer(context.env, context.venv, context.run_dir)
    argv = (python, *pip, "install", "--disable-pip-version-check", "--no-input", *what)
    process = context.process(argv, "install", -1, defaults={"PIP_ROOT_USER_ACTION": "ignore"})
    failed = f"{REQUIREMENTS if '-r' in what else 'the package'} could not be installed"
    return (process._replace(failure=failed),)


# Below the run directory
HOME, PACKAGES = "home", "packages"


def home_variables(environ: Mapping[str, str], run_dir: str) -> dict[str, str]:
    """Return a home below the run directory if the user's own cannot be written to, else nothing.

    For a user without an entry in /etc/passwd the engine says that / is the home.
    """
    home = environ.get("HOME")
    if not home or os.access(home, os.W_OK) or not can_make_folder(run_dir):
        return {}
    variables = {"HOME": f"{run_dir}/{HOME}"}
    # In most jobs nobody asks for it
    import pwd

    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        variables["USER"] = environ.get("USER") or str(os.geteuid())
    return variables


def make_home(environ: Mapping[str, str], run_dir: str) -> dict[str, str]:
    """Return the variables of a home for a command that is no job, and make it; nothing if it cannot be made."""
    variables = home_variables(environ, run_dir)
    if variables:
        try:
            _make_home_folder(run_dir)
        except (OSError, LaunchError):
            return {}
    return variables


def _make_home_folder(run_dir: str) -> None:
    make_private_folder(run_dir)
    os.makedirs(f"{run_dir}/{HOME}", mode=0o700, exist_ok=True)


def package_variables(env: Mapping[str, str], venv: str, run_dir: str) -> dict[str, str]:
    """Return what shows packages below the run directory if the image's environment takes none; else nothing."""
    found = next(iter(package_folders(venv)), "")
    if not found or os.access(found, os.W_OK) or not can_make_folder(run_dir):
        return {}
    own = f"{run_dir}/{PACKAGES}"
    python_path = env["PYTHONPATH"].split(":")
    python_path.insert(-1, own + found[len(venv) :])
    return {"PATH": f"{own}/bin:{env['PATH']}", "PYTHONPATH": ":".join(python_path)}


def pip_installer(env: Mapping[str, str], venv: str, run_dir: str) -> str:
    """Return the Python that installs what the user's code needs."""
    own = f"{run_dir}/{PACKAGES}"
    return f"{own}/bin/python" if env["PATH"].startswith(f"{own}/bin:") else f"{venv}/bin/python"


def make_own_folders(context: Context) -> None:
    """Make the folders that the variables of the job's processes name, if they name any. Raises LaunchError."""
    env, run_dir = context.env, context.run_dir
    home, own = f"{run_dir}/{HOME}", f"{run_dir}/{PACKAGES}"
    try:
        if env.get("HOME") == home:
            _make_home_folder(run_dir)
        if env["PATH"].startswith(f"{own}/bin:"):
            make_private_folder(run_dir)
            _make_environment(own, context.venv)
    except OSError as error:
        raise LaunchError(
            CANNOT_CREATE, "cannot be made", where=run_dir, found=os.strerror(error.errno or 0), remedy=PRIVATE_REMEDY
        ) from error


def _make_environment(own: str, venv: str) -> None:
    """Make a virtual environment that sees the other's packages: pip replaces none of them, it puts newer before.

    Made by hand, because module venv takes a tenth of a second, and ten times that with pip.
    """
    found = package_folders(venv)[0]
    packages = own + found[len(venv) :]
    os.makedirs(packages, exist_ok=True)
    os.makedirs(f"{own}/bin", exist_ok=True)
    python = os.path.realpath(f"{venv}/bin/python")
    if not os.path.lexists(f"{own}/bin/python"):
        os.symlink(python, f"{own}/bin/python")
    with open(f"{own}/pyvenv.cfg", "w", encoding="utf-8") as file:
        file.write(f"home = {os.path.dirname(python)}\ninclude-system-site-packages = false\n")
    with open(f"{packages}/image.pth", "w", encoding="utf-8") as file:
        file.write(f"{found}\n")
