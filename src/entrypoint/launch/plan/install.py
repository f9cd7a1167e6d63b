"""What the user's code needs before it runs: its requirements.txt and, where it is one, the package itself."""

from __future__ import annotations

import os

from launch.base.process_spec import ProcessSpec
from launch.job.entry_point import EXECUTABLE, SHELL, EntryPoint, is_buildable
from launch.plan import programs
from launch.plan.context import Context
from launch.plan.own_folders import installer

REQUIREMENTS = "requirements.txt"


def needed(entry: EntryPoint, folder: str) -> tuple[str, ...]:
    """What pip is to install for the code that `folder` shows, () for nothing.

    Shell scripts and executables get their requirements too, which the platform's toolkit leaves out. Like there they
    get no package: they install it themselves where they want it, and its build may need what this job cannot reach.
    """
    package = (".",) if is_buildable(folder) and entry.kind not in (SHELL, EXECUTABLE) else ()
    requirements = ("-r", REQUIREMENTS) if os.path.isfile(f"{folder}/{REQUIREMENTS}") else ()
    return (*package, *requirements)


def installation(context: Context, folder: str) -> tuple[ProcessSpec, ...]:
    """The pip command for the code that `folder` shows, () where there is nothing to install."""
    what = needed(context.entry, folder)
    if not what:
        return ()
    repository = context.environ.get("CA_REPOSITORY_ARN")
    pip = (programs.path("codeartifact_pip"), repository) if repository else (programs.path("pip_install"),)
    python = installer(context.env, context.venv, context.run_dir)
    argv = (python, *pip, "install", "--disable-pip-version-check", "--no-input", *what)
    process = context.process(argv, "install", -1, defaults={"PIP_ROOT_USER_ACTION": "ignore"})
    failed = f"{REQUIREMENTS if '-r' in what else 'the package'} could not be installed"
    return (process._replace(failure=failed),)
