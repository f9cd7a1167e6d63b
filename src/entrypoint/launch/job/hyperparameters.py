"""What the job's config files say, and hyperparameters as arguments in one of four dialects. Imports base."""

from __future__ import annotations

import json
import re

from launch.base.compat import NamedTuple
from launch.base.errors import CONFIG, DATA, LaunchError, shown
from launch.base.files import is_passable, read_object, require_text
from launch.base.paths import Paths
from launch.job import instance_groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


PLATFORM_PREFIX = "sagemaker_"
JOB_NAME = "sagemaker_job_name"
GROUPS = "sagemaker_distribution_instance_groups"
# Consumed by SageMaker's toolkit, or by us: neither arguments of the script nor "framework parameters".
CONSUMED = (
    "sagemaker_program",
    "sagemaker_submit_directory",
    "sagemaker_enable_cloudwatch_metrics",
    "sagemaker_region",
    "sagemaker_container_log_level",
    JOB_NAME,
    "default_user_module_name",
    "_tuning_objective_metric",
    "sagemaker_s3_output",
    # Ours
    instance_groups.PARAMETER,
)
# What SDK 3's shell script exports before it starts a driver of the SDK, in whose place we run
SDK3_PROGRAM, SDK3_CONFIG = "SM_ENTRY_SCRIPT", "SM_DISTRIBUTED_CONFIG"
# Logging.INFO
DEFAULT_LOG_LEVEL = 20


class Job(NamedTuple):
    """The request, parsed but not yet matched with hosts, devices or files."""

    # "" if nobody named one
    program: str
    # The user's own, values parsed as JSON
    hyperparameters: Mapping[str, Any]
    # SageMaker's: every key that is no argument of the script
    parameters: Mapping[str, Any]
    arguments: tuple[str, ...]
    input_data_config: Mapping[str, Any]
    dialect: str
    # For messages
    hyperparameters_file: str
    job_name: str = ""
    # Instance groups with a program of their own
    group_programs: Mapping[str, str] = {}

    @property
    def channels(self) -> tuple[str, ...]:
        return tuple(sorted(self.input_data_config))

    @property
    def framework_parameters(self) -> dict[str, Any]:
        """Return SageMaker's parameters that its toolkit does not consume itself (SM_FRAMEWORK_PARAMS)."""
        return {key: value for key, value in self.parameters.items() if key not in CONSUMED}

    def flag(self, name: str) -> bool:
        """Return a parameter that is true or false, false if it is absent. Raises LaunchError for anything else."""
        value = self.parameters.get(name, False)
        text = value.strip().lower() if isinstance(value, str) else value
        if text in (True, "true", "1"):
            return True
        if text in (False, "false", "0", "", None):
            return False
        raise LaunchError(CONFIG, name, where=self.hyperparameters_file, expected="true or false", found=shown(value))

    def number(self, name: str) -> int | None:
        """Return a parameter that is a positive number, None if it is absent. Raises LaunchError for anything else."""
        value = self.parameters.get(name)
        if value is None or value == "":
            return None
        if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,9}\s*", value):
            value = int(value)
        # Whoever divides in Python gets 8.0
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 10**9:
            raise LaunchError(
                CONFIG, name, where=self.hyperparameters_file, expected="a positive number", found=shown(value)
            )
        return value

    def text(self, name: str) -> str:
        """Return a parameter that is a text, "" if it is absent. Raises LaunchError for anything else."""
        value = self.parameters.get(name)
        return "" if value is None else require_text(self.hyperparameters_file, name, value)


def read_job(environ: Mapping[str, str], paths: Paths, extra: Sequence[str] = ()) -> Job:
    """Read hyperparameters.json and inputdataconfig.json; absent files are empty ones.

    `extra` arguments of the command line follow those that the hyperparameters make.

    Raises LaunchError: a malformed file, a value that no argument can carry, an unknown DLC_ARGV_DIALECT.
    """
    path = f"{paths.config}/hyperparameters.json"
    texts = read_object(path) or {}
    everything = {key: _parse_value(path, key, value) for key, value in texts.items()}
    if not isinstance(everything.get(JOB_NAME), (str, type(None))) and isinstance(texts[JOB_NAME], str):
        # A name, even if it is written like a number: 2026, 1e3
        everything[JOB_NAME] = texts[JOB_NAME]
    stated = {key: value for key, value in everything.items() if key.startswith(PLATFORM_PREFIX) or key in CONSUMED}
    own = {key: value for key, value in everything.items() if key not in stated}
    parameters = {**_read_sdk3_config(environ), **stated}
    job_name = environ.get("TRAINING_JOB_NAME", "")
    _separate_model_dir_of_tuning(own, parameters, job_name)
    dialect = _read_dialect(environ)
    return Job(
        program=_read_program(environ, path, parameters),
        hyperparameters=own,
        parameters=parameters,
        arguments=(*as_arguments(own, dialect), *extra),
        input_data_config=_read_channels(f"{paths.config}/inputdataconfig.json"),
        dialect=dialect,
        hyperparameters_file=path,
        job_name=job_name,
        group_programs=instance_groups.read_group_programs(environ, parameters),
    )


def _parse_value(path: str, key: str, value: Any) -> Any:
    """Parse a hyperparameter's value: JSON if the text is JSON, else the text (contract, section 2.2)."""
    require_text(path, "a key", key)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            require_text(path, key, value)
            return value
    try:
        passable = is_passable(json.dumps(value, ensure_ascii=False))
        # JSON writes a NUL as \u0000. If a text itself has these six characters, JSON doubles their backslash.
        passable = passable and "\\u0000" not in json.dumps(value).replace("\\\\", "")
    except (ValueError, RecursionError):
        passable = False
    if not passable:
        raise LaunchError(
            DATA, key, where=path, expected="a value that an argument can carry (no NUL, UTF-8)", found=shown(value)
        )
    return value


def _separate_model_dir_of_tuning(own: dict[str, Any], parameters: Mapping[str, Any], job_name: str) -> None:
    # The jobs of one tuning share model_dir; as the TensorFlow toolkit does, each gets a folder of its own in S3.
    model_dir = own.get("model_dir")
    in_s3 = isinstance(model_dir, str) and model_dir.startswith("s3://")
    if in_s3 and job_name and "_tuning_objective_metric" in parameters:
        own["model_dir"] = f"{str(model_dir).rstrip('/')}/{job_name}/model"


def _read_program(environ: Mapping[str, str], path: str, parameters: Mapping[str, Any]) -> str:
    if environ.get("SAGEMAKER_PROGRAM"):
        return environ["SAGEMAKER_PROGRAM"]
    value = parameters.get("sagemaker_program")
    return environ.get(SDK3_PROGRAM, "") if value is None else require_text(path, "sagemaker_program", value)


def _read_sdk3_config(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return what ModelTrainer's `distributed` asks for, by the names that SDK 2 has for it: MPI, or else Torchrun."""
    text = environ.get(SDK3_CONFIG) if environ.get(SDK3_PROGRAM) else ""
    if not text:
        return {}
    # Most jobs have no use for it
    import shlex

    try:
        config = json.loads(text)
        options = shlex.join(config.get("mpi_additional_options") or [])
    except (ValueError, AttributeError, TypeError) as error:
        expected = "an object, whose mpi_additional_options are texts"
        raise LaunchError(DATA, "malformed", where=SDK3_CONFIG, expected=expected, found=shown(text)) from error
    asked: dict[str, Any] = {"sagemaker_torch_distributed_enabled": True}
    if "mpi_additional_options" in config:
        asked = {"sagemaker_mpi_enabled": True, "sagemaker_mpi_custom_mpi_options": options}
    return {**asked, "sagemaker_mpi_num_of_processes_per_host": config.get("process_count_per_node")}


def _read_dialect(environ: Mapping[str, str]) -> str:
    dialect = environ.get("DLC_ARGV_DIALECT") or (SDK3 if environ.get(SDK3_PROGRAM) else TOOLKIT)
    if dialect not in DIALECTS:
        raise LaunchError(
            CONFIG,
            "unknown dialect",
            where="DLC_ARGV_DIALECT",
            expected=f"one of {', '.join(DIALECTS)}",
            found=shown(dialect),
        )
    return dialect


def _read_channels(path: str) -> dict[str, Any]:
    channels = read_object(path) or {}
    for name, config in channels.items():
        require_text(path, "a channel's name", name)
        if not name or "/" in name or name in (".", ".."):
            raise LaunchError(DATA, "a channel's name", where=path, expected="a folder's name", found=shown(name))
        if not isinstance(config, dict):
            raise LaunchError(DATA, name, where=path, expected="an object", found=shown(config))
    return channels


# SageMaker's toolkit, the drivers of SDK 3.x, argparse's store_true, and absl or whoever wants --key=value.
TOOLKIT, SDK3, FLAGS, EQUALS = "toolkit", "sdk3", "flags", "equals"
DIALECTS = (TOOLKIT, SDK3, FLAGS, EQUALS)


def as_arguments(hyperparameters: Mapping[str, Any], dialect: str) -> tuple[str, ...]:
    """Return the hyperparameters, none of them SageMaker's, as arguments. `dialect` is one of DIALECTS."""
    if dialect == SDK3:
        return tuple(word for key, value in hyperparameters.items() for word in (f"--{key}", _sdk3_value(value)))
    return tuple(
        word for key in sorted(hyperparameters) for word in _argument_words(key, hyperparameters[key], dialect)
    )


def _argument_words(key: str, value: object, dialect: str) -> tuple[str, ...]:
    """Return `--key value`, `-k value` for a key of one character, "" for none (contract, section 2.2)."""
    option = f"--{key}" if len(key) > 1 else f"-{key}" if key else ""
    if dialect == FLAGS and (isinstance(value, bool) or value in ("True", "False")):
        return (option,) if value in (True, "True") else ()
    if dialect == EQUALS and option:
        return (f"{option}={_toolkit_value(value)}",)
    return (option, _toolkit_value(value))


def _toolkit_value(value: object) -> str:
    """Return True and False for booleans, `k=v,k=v` for objects, Python's repr for lists."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return ",".join(f"{key}={value[key]}" for key in sorted(value))
    return str(value)


def _sdk3_value(value: object) -> str:
    """Return a string as it is, everything else as JSON text."""
    return value if isinstance(value, str) else json.dumps(value)
