"""What the user's code needs before it runs: its requirements.txt and, where it is one, the package itself."""

from __future__ import annotations

import os

from launch.base.process_spec import ProcessSpec
from launch.job.entry_point import is_buildable
from launch.plan import programs
from launch.plan.context import Context
from launch.plan.own_folders import installer

REQUIREMENTS = "requirements.txt"


def needs_installation(folder: str) -> bool:
    """Whether the code that `folder` shows has requirements, or is a package itself."""
    return is_buildable(folder) or os.path.isfile(f"{folder}/{REQUIREMENTS}")


def installation(context: Context, folder: str) -> tuple[ProcessSpec, ...]:
    """The pip command for the code that `folder` shows, () where there is nothing to install.

    Shell scripts and executables get their requirements too; the platform's toolkit leaves those out.
    """
    what: list[str] = []
    if is_buildable(folder):
        what.append(".")
    if os.path.isfile(f"{folder}/{REQUIREMENTS}"):
        what += ["-r", REQUIREMENTS]
    if not what:
        return ()
    repository = context.environ.get("CA_REPOSITORY_ARN")
    pip = (programs.path("codeartifact_pip"), repository) if repository else (programs.path("pip_install"),)
    python = installer(context.env, context.venv, context.run_dir)
    argv = (python, *pip, "install", "--disable-pip-version-check", "--no-input", *what)
    process = context.process(argv, "install", -1, defaults={"PIP_ROOT_USER_ACTION": "ignore"})
    failed = f"{REQUIREMENTS if '-r' in what else 'the package'} could not be installed"
    return (process._replace(failure=failed),)
