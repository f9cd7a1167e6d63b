"""What dlc, the launcher and the library each write down is the same: variables, hyperparameters, folders, exit codes.

They are three packages that are not installed together, so each has the names that it uses (docs/decisions/0058). Which
variables the library reads is held by `tests/unit/entrypoint/test_reference.py`.
"""

from __future__ import annotations

import ast
import json
import os
import re
import signal
from pathlib import Path

import pytest

from dlc.buildspec import devcontainer
from dlc.core import environment
from dlc.inspection import facts
from dlc.job import job_spec
from dlc.places import place, task_files
from dlc.places.kubernetes import pod
from dlc.places.local import job_folder, run
from dlc.places.sagemaker import request
from dlc.places.slurm import options
from dlc.tune import request as trials
from dlc_runtime import cluster_facts
from dlc_runtime.compiler import settings as compiler
from dlc_runtime.profile import settings as profile
from harness.job_folder import JobFolder, hosts
from launch.base import errors, paths, process_spec, variables
from launch.base.settings import RUNTIME_SETTINGS, SETTINGS
from launch.coordination import rendezvous
from launch.discovery import cluster
from launch.job import source

ROOT = Path(__file__).parents[3]
IMAGE = paths.Paths()


def find_words(package: str, pattern: str) -> set[str]:
    """Return what matches in the texts of a package, those of its docstrings among them."""
    texts = (
        node.value
        for file in (ROOT / "src" / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return {word for text in texts for word in re.findall(pattern, text)}


def below_base(folder: str) -> str:
    return folder.removeprefix(f"{IMAGE.base}/")


def test_a_variable_that_dlc_names_is_its_own_or_the_launchers() -> None:
    """A place that sets a variable which the launcher has renamed would set it for nobody."""
    launchers = {*(setting.name for setting in SETTINGS), *RUNTIME_SETTINGS}
    launchers |= {variable.name for variable in variables.VARIABLES}
    named = {word for word in find_words("dlc", r"\bDLC_[A-Z0-9_]+\b") if not f"{word}_".startswith(environment.MIRROR)}
    assert len(named & launchers) > 10
    assert named - launchers - {*environment.OWN_VARIABLES} == set()


@pytest.mark.parametrize("pattern", [r"\bsagemaker_[a-z_]+\b", r"\b(?:hyperparameters|[a-z]+config)\.json\b"])
def test_a_hyperparameter_and_a_file_that_dlc_writes_are_read_by_the_launcher(pattern: str) -> None:
    named = find_words("dlc", pattern)
    assert named
    assert named - find_words("entrypoint", pattern) == set()


def test_a_variable_of_sagemaker_that_the_library_reads_is_set_by_the_launcher(tmp_path: Path) -> None:
    job = JobFolder(tmp_path).config("resourceconfig", hosts("algo-1", "algo-2")).code().hyperparameters()
    named = find_words("dlc_runtime", r"\bSM_[A-Z_]+\b")
    assert named
    assert named - job.process()["env"].keys() == set()


def test_a_folder_or_a_file_is_the_launchers() -> None:
    own_python, results = f"{paths.DEFAULT_VENV}/bin/python", below_base(IMAGE.output_data)
    assert place.BASE == profile.BASE == IMAGE.base
    assert (IMAGE.code, IMAGE.data) == (task_files.CODE, task_files.DATA)
    assert task_files.CONFIG == pod.CONFIG == cluster_facts.CONFIG_FOLDER == IMAGE.config
    assert task_files.CHECKPOINTS == request.CHECKPOINTS == IMAGE.checkpoints
    assert IMAGE.channel(source.CODE_CHANNEL) == request.CODE_FOLDER
    assert request.ARCHIVE == source.ARCHIVE_NAME
    assert pod.RESULTS == job_folder.PARTS == {"model": below_base(IMAGE.model), "output": results}
    assert below_base(IMAGE.failure) == run.FAILURE
    assert f"{IMAGE.base}/{trials.REPORTS}" == profile.Settings().report == f"{IMAGE.output_data}/profile"
    assert f"{IMAGE.output_data}/compiler" == compiler.REPORT
    assert own_python == devcontainer.PYTHON
    assert (own_python, process_spec.SYSTEM_PYTHON[0]) == facts.INTERPRETERS


def test_the_only_group_of_a_job_has_one_name() -> None:
    assert job_spec.ONLY_GROUP == cluster_facts.DEFAULT_GROUP == cluster.DEFAULT_GROUP


def test_an_exit_code_is_that_of_the_system_and_of_the_launcher() -> None:
    names = ("USAGE", "DATA", "NO_INPUT", "UNAVAILABLE", "SOFTWARE", "CANNOT_CREATE", "NO_PERMISSION", "CONFIG")
    theirs = (os.EX_USAGE, os.EX_DATAERR, os.EX_NOINPUT, os.EX_UNAVAILABLE, os.EX_SOFTWARE, os.EX_CANTCREAT)
    assert tuple(getattr(errors, name) for name in names) == (*theirs, os.EX_NOPERM, os.EX_CONFIG)
    assert place.LOST_CODE == errors.UNAVAILABLE
    assert place.STOPPED_CODE == rendezvous.STOP_CODE == 128 + signal.SIGTERM


def test_a_place_starts_the_launcher_as_an_image_does() -> None:
    dockerfile = (ROOT / "docker/base/Dockerfile").read_text()
    started = re.findall(r"^ENTRYPOINT (.*)$", dockerfile, re.MULTILINE)
    assert [tuple(json.loads(words)) for words in started] == [options.ENTRYPOINT]
    line = (ROOT / "docker/scripts/runtime/dlc_runtime.pth").read_text().splitlines()[-1]
    assert line.endswith(f", {json.dumps([*place.LAUNCHER, 'train'])})")
    assert place.LAUNCHER[:-1] == process_spec.SYSTEM_PYTHON
    assert (ROOT / "src/entrypoint" / Path(place.LAUNCHER[-1]).name).is_file()
