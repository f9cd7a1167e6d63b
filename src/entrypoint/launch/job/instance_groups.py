"""Instance groups that have an entry point of their own. Imports base."""

from __future__ import annotations

import json

from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.files import is_passable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any


SWITCH = "DLC_GROUP_PROGRAMS"
PARAMETER = "sagemaker_group_programs"
EXPECTED = 'an object such as {"data_group": "train_data.py"}'
# Instead of an entry point: the group's hosts run tf.data.service
TF_DATA = "tf.data"
TF_DATA_PROGRAM = "-m dlc_runtime.dataservice.tensorflow.host"


def read_group_programs(environ: Mapping[str, str], parameters: Mapping[str, Any]) -> dict[str, str]:
    """Group -> entry point; the variable comes before the hyperparameter. Raises LaunchError for anything else."""
    value = environ.get(SWITCH) or parameters.get(PARAMETER)
    if value is None or value == "":
        return {}
    where = setting_name(environ)
    programs = _parse_programs(value) if isinstance(value, str) else value
    if not isinstance(programs, dict):
        raise LaunchError(CONFIG, "not an object", where=where, expected=EXPECTED, found=shown(value))
    for group, program in programs.items():
        if not isinstance(program, str) or not program or not is_passable(program):
            raise LaunchError(
                CONFIG,
                f"group {shown(group)}",
                where=where,
                expected="the name of an entry point",
                found=shown(program),
            )
    return _with_services(programs, where)


def tf_data_group(programs: Mapping[str, str]) -> str:
    """Return the group whose hosts run tf.data.service, "" if none does."""
    return next((group for group, program in programs.items() if program == TF_DATA_PROGRAM), "")


def setting_name(environ: Mapping[str, str]) -> str:
    """Return the name of what states the programs, for messages."""
    return SWITCH if environ.get(SWITCH) else PARAMETER


def check_group_names(programs: Mapping[str, str], groups: Collection[str], where: str) -> None:
    """Raise LaunchError for a group that the job does not have."""
    for name in programs:
        if name not in groups:
            raise LaunchError(
                CONFIG, "no such group", where=where, expected=f"names out of {shown(list(groups))}", found=shown(name)
            )


def _with_services(programs: Mapping[str, str], where: str) -> dict[str, str]:
    found = {group: TF_DATA_PROGRAM if program == TF_DATA else program for group, program in programs.items()}
    serving = [group for group, program in found.items() if program == TF_DATA_PROGRAM]
    if len(serving) > 1:
        raise LaunchError(
            CONFIG, f"several groups with the program {TF_DATA}", where=where,
            expected="one: the job has one dispatcher", found=shown(serving),
        )  # fmt: skip
    return found


def _parse_programs(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
