"""The SM_* variables that training scripts read, as SageMaker's toolkit sets them (contract, section 2.1)."""

from __future__ import annotations

import json
import os

from launch.base import settings
from launch.base.errors import DATA, LaunchError
from launch.base.paths import Paths
from launch.base.process_spec import Decision
from launch.discovery.cluster import Cluster
from launch.discovery.devices import Devices
from launch.job.entry_point import module_name
from launch.job.hyperparameters import DEFAULT_LOG_LEVEL, Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


# Other variables and the files of input/config repeat them: left out if a thousand hosts make them too long.
AGGREGATES = ("SM_TRAINING_ENV", "SM_RESOURCE_CONFIG", "SM_INSTANCE_GROUPS_DICT")
# Of "NAME=value"; Linux's MAX_ARG_STRLEN counts the closing NUL too
LONGEST_VARIABLE_BYTES = 128 * 1024 - 1


def encode_value(value: object) -> str:
    """Return a value as a variable's text: strings as they are, None empty, all else compact sorted ASCII JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def sm_variables(
    cluster: Cluster, devices: Devices, job: Job, group: tuple[str, ...], paths: Paths, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return every SM_* variable of this host. `group` holds the names of the distributed groups.

    Raises LaunchError for a value that is longer than the kernel takes.
    """
    facts = _facts(cluster, devices, job, group, paths, environ)
    values: dict[str, Any] = {f"SM_{name.upper()}": facts[name] for name in _VARIABLES}
    values["SM_HPS"] = dict(job.hyperparameters)
    values["SM_FRAMEWORK_PARAMS"] = job.framework_parameters
    values["SM_CHANNELS"] = job.channels
    values["SM_USER_ARGS"] = job.arguments
    values["SM_TRAINING_ENV"] = facts
    if facts["topology"]:
        values["SM_TOPOLOGY"] = facts["topology"]
    for channel in job.input_data_config:
        values[f"SM_CHANNEL_{channel.upper()}"] = paths.channel(channel)
    for key, value in job.hyperparameters.items():
        values[f"SM_HP_{key.upper()}"] = value
    # A name with "=" cannot be a variable; SM_HPS and the arguments carry such a hyperparameter all the same.
    variables = {name: encode_value(value) for name, value in values.items() if "=" not in name}
    variables = {name: value for name, value in variables.items() if name not in AGGREGATES or _fits(name, value)}
    _check_lengths(variables)
    return variables


# The facts that have a variable of their own; SM_TRAINING_ENV holds all of them.
_VARIABLES = (
    "hosts",
    "network_interface_name",
    "user_entry_point",
    "resource_config",
    "input_data_config",
    "output_data_dir",
    "current_host",
    "current_instance_type",
    "current_instance_group",
    "current_instance_group_hosts",
    "instance_groups",
    "instance_groups_dict",
    "distribution_instance_groups",
    "is_hetero",
    "module_name",
    "log_level",
    "framework_module",
    "input_dir",
    "input_config_dir",
    "output_dir",
    "num_cpus",
    "num_gpus",
    "num_neurons",
    "model_dir",
    "module_dir",
    "output_intermediate_dir",
)


def _facts(
    cluster: Cluster, devices: Devices, job: Job, group: tuple[str, ...], paths: Paths, environ: Mapping[str, str]
) -> dict[str, Any]:
    """Return what SM_TRAINING_ENV holds: the attributes of the toolkit's Environment."""
    distribution_hosts = cluster.hosts_of(group)
    master = (distribution_hosts or cluster.hosts)[0]
    # The toolkit asks the variable, which is not yet set here
    model_parallel = environ.get("SM_HP_MP_PARAMETERS")
    return {
        "additional_framework_parameters": job.framework_parameters,
        "channel_input_dirs": {channel: paths.channel(channel) for channel in job.input_data_config},
        "current_host": cluster.current_host,
        "current_instance_group": cluster.current_group,
        "current_instance_group_hosts": list(cluster.current_group_hosts),
        "current_instance_type": cluster.instance_type,
        "distribution_hosts": list(distribution_hosts),
        "distribution_instance_groups": list(group),
        "framework_module": environ.get("SAGEMAKER_TRAINING_MODULE"),
        "hosts": list(cluster.hosts),
        "hyperparameters": dict(job.hyperparameters),
        "input_config_dir": paths.config,
        "input_data_config": dict(job.input_data_config),
        "input_dir": paths.input,
        "instance_groups": [item.name for item in cluster.groups],
        "instance_groups_dict": _groups_as_read(cluster),
        "is_hetero": cluster.is_heterogeneous,
        "is_master": cluster.current_host == master,
        "is_modelparallel_enabled": bool(model_parallel) and model_parallel != "{}" if model_parallel else None,
        "is_smddpmprun_installed": False,
        "is_smddprun_installed": False,
        "job_name": job.job_name or None,
        "log_level": job.parameters.get("sagemaker_container_log_level", DEFAULT_LOG_LEVEL),
        "master_hostname": master,
        "model_dir": paths.model,
        "module_dir": job.text("sagemaker_submit_directory") or paths.code,
        "module_name": module_name(job.program),
        "network_interface_name": cluster.network_interface,
        "num_cpus": devices.num_cpus,
        "num_gpus": devices.num_gpus,
        "num_neurons": devices.num_neurons,
        "output_data_dir": paths.output_data,
        "output_dir": paths.output,
        "output_intermediate_dir": paths.output_intermediate,
        "resource_config": dict(cluster.resource_config),
        "topology": cluster.resource_config.get("topology", []),
        "user_entry_point": job.program,
    }


def _groups_as_read(cluster: Cluster) -> dict[str, Any]:
    """Group name to the group's object in the file; of groups with one name the last, as in the toolkit."""
    return {item["instance_group_name"]: item for item in cluster.resource_config.get("instance_groups") or []}


def explain_left_out(env: Mapping[str, str]) -> list[Decision]:
    """Say which variables an environment lacks because they were too long."""
    why = "too long for a variable; input/config/resourceconfig.json and the other SM_* variables say the same"
    return [Decision(f"warning: {name} is left out", why) for name in AGGREGATES if name not in env]


def explain_misspelt(environ: Mapping[str, str]) -> list[Decision]:
    """Warn of variables that nothing reads and that look like one that is read."""
    found = settings.find_misspelt(environ)
    return [Decision(f"warning: nothing reads {name}", f"did you mean {meant}?") for name, meant in found.items()]


def _fits(name: str, value: str) -> bool:
    return len(os.fsencode(f"{name}={value}")) <= LONGEST_VARIABLE_BYTES


def _check_lengths(variables: Mapping[str, str]) -> None:
    for name, value in variables.items():
        if not _fits(name, value):
            size = len(os.fsencode(f"{name}={value}"))
            raise LaunchError(
                DATA,
                "too long for a variable of a process",
                where=name,
                expected=f"at most {LONGEST_VARIABLE_BYTES} bytes",
                found=f"{size} bytes",
                remedy="pass large values in a file of an input channel, not as a hyperparameter",
            )
