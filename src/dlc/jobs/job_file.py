"""A job as a file: what `dlc run --save` writes and every place reads. May import core, buildspec, jobs.run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema

from dlc.buildspec.problems import Problem, raise_report
from dlc.buildspec.validation import Model, validate_node
from dlc.buildspec.yaml_layers import Node, parse_yaml
from dlc.core.errors import UsageError
from dlc.jobs.run.job import (
    ALL,
    HOST_VARIABLE,
    LOCAL_INSTANCE,
    MOST_HOSTS,
    MOST_PLACE_HOSTS,
    NAME,
    SHARED_MEMORY,
    STOP_SECONDS,
    Group,
    Job,
    Options,
    read_instance,
)
from dlc.jobs.run.limits import UNLIMITED, read_cpus, read_gpus, read_size, read_stated_memory
from dlc.jobs.strategies import STRATEGIES

# What stands behind a colon and two slashes is no folder of this machine: s3://bucket/data, pvc://claim/data.
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://")
FROM_SHELL = "environment"
HEAD = "# A job: `dlc run FILE`, or `dlc submit FILE --to PLACE`. Paths are from this file's folder.\n"
# A variable of such a name holds a secret.
SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY", re.IGNORECASE)
VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
# The way to a value of the file.
Keys = tuple[str | int, ...]
# That way, what was expected there, what was found.
Finding = tuple[Keys, str, str]


@dataclass(frozen=True)
class FromShell:
    """The value of a variable that is in no file: that of the shell that starts the job."""


def _keep_checked(read: Callable[[str], object]) -> AfterValidator:
    """Return a check by a reader of dlc run, which leaves the text as it was written."""

    def check(text: str) -> str:
        if text:
            read(text)
        return text

    return AfterValidator(check)


def _shorten_size(read: Callable[[str], object]) -> AfterValidator:
    """Return a check by a reader of dlc run, which leaves one spelling of a size for every place. 0 stays: no limit."""

    def check(text: str) -> str:
        if text:
            read(text)
        return read_size(text) if text else ""

    return AfterValidator(check)


def _match(pattern: str, meaning: str) -> AfterValidator:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(meaning)
        return text

    return AfterValidator(check)


def _require_text(text: str) -> str:
    if not text:
        raise ValueError("text")
    return text


def _read_variable(value: object) -> str | FromShell:
    if value == {"from": FROM_SHELL}:
        return FromShell()
    if not isinstance(value, str):
        raise ValueError(f"text, or {{from: {FROM_SHELL}}} for the shell's own value")
    return value


Text = Annotated[str, AfterValidator(_require_text)]
JobName = Annotated[str, _match(rf"({NAME})?", "at most 63 letters, digits, _ . and -")]
GroupName = Annotated[str, _match(NAME, "a name of letters, digits, _ . and -")]
Cpus = Annotated[str, _keep_checked(read_cpus)]
Memory = Annotated[str, _shorten_size(read_stated_memory)]
Gpus = Annotated[str, _keep_checked(read_gpus)]
Size = Annotated[str, _shorten_size(read_size)]
InstanceType = Annotated[str, _keep_checked(read_instance)]
Count = Annotated[str, _match(r"[1-9][0-9]{0,5}", "a whole number above 0")]
OptionalCount = Annotated[str, _match(r"([1-9][0-9]{0,5})?", "a whole number above 0")]
VariableName = Annotated[str, _match(VARIABLE, "the name of an environment variable")]
Variable = Annotated[
    Any,
    PlainValidator(_read_variable),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"from": {"const": FROM_SHELL}},
                    "required": ["from"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
PlaceName = Literal["slurm", "kubernetes", "sagemaker", "skypilot", "dstack"]


class Resources(Model):
    """What each host gets."""

    cpus: Cpus = Field(default="", description="CPUs of a host, such as 0.5; 0 is no limit")
    memory: Memory = Field(default="", description="memory of a host, such as 512m or 4g; 0 is no limit")
    gpus: Gpus = Field(default="", description="GPUs of a host: all, a number, or device=0,1")
    instance_type: InstanceType = Field(default="", description="type of the machine, such as ml.c5.xlarge")


class GroupSpec(Resources):
    """An instance group; what it leaves out is the job's."""

    hosts: OptionalCount = Field(default="", description="hosts of the group; without it the job's `hosts`")
    program: str = Field(default="", description="the group's own entry point")


class JobSpec(Model):
    """A job: an image, a script, hosts, and what they get. Paths are from the folder of this file."""

    image: Text = Field(description="an image identifier, or a Docker reference")
    script: Text = Field(description="the entry point: a file, or with `source` a path in that folder")
    name: JobName = Field(default="", description="the job's name; without it the time and six digits")
    source: str = Field(default="", description="a folder of code")
    arguments: tuple[str, ...] = Field(default=(), description="words that the script gets as they are")
    hosts: Count = Field(default="1", description="hosts of the job, or of each group that names no number")
    distributed: Literal["", *STRATEGIES] = Field(  # type: ignore[valid-type]
        default="", description="train one model together, by this strategy"
    )
    groups: dict[GroupName, GroupSpec] = Field(
        default={}, description="groups by name, in their order: hosts, program, cpus, memory, gpus, instance_type"
    )
    hyperparameters: dict[Text, str] = Field(default={}, description="as hyperparameters.json has them, as text")
    channels: dict[GroupName, Text] = Field(
        default={}, description="input channels: a folder, or an address such as s3://bucket/data"
    )
    checkpoints: str = Field(default="", description="the folder or the address of /opt/ml/checkpoints of all hosts")
    environment: dict[VariableName, Variable] = Field(
        default={}, description=f"variables: text, or {{from: {FROM_SHELL}}} for the value of the shell that starts it"
    )
    resources: Resources = Field(default=Resources(), description="what each host gets")
    shared_memory: Size = Field(default=SHARED_MEMORY, description="limit of shared memory, such as 8g")
    user: str = Field(default="", description="who runs in the containers, as for `docker run`")
    grace: Count = Field(default=str(STOP_SECONDS), description="seconds from a stop to SIGKILL")
    places: dict[PlaceName, dict[str, Any]] = Field(
        default={}, description="options of each place that `dlc submit --to` knows"
    )


@dataclass(frozen=True)
class JobFile:
    """A file that was read: its job, and where each value of it stands."""

    path: Path
    spec: JobSpec
    node: Node

    def find_path(self, word: str) -> Path:
        """Return a path of the file from the root; `~` is a home folder."""
        # The folder may be a link: what the file says of its neighbours is meant where it lies.
        return Path(os.path.normpath(self.path.parent / os.path.expanduser(word)))  # noqa: PTH111

    def raise_problems(self, problems: Iterable[Finding]) -> None:
        """Raise one report of (keys to the value, what was expected, what was found); return if there is none."""
        raise_report(
            Problem((self.node.at(keys) or self.node).mark, ".".join(map(str, keys)), expected, found)
            for keys, expected, found in problems
        )


def is_address(word: str) -> bool:
    """Tell whether a channel or the checkpoints are at an address, not in a folder."""
    return bool(ADDRESS.match(word))


def read_job_file(path: Path) -> JobFile:
    """Read a file. Raises SpecError with every problem of it: line, column, what was expected and found."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = "none" if isinstance(error, FileNotFoundError) else str(error)
        raise UsageError(f"{path}: expected the file of a job, found {why}", "dlc run ... --save job.yml") from None
    node, problems = parse_yaml(text, str(path))
    raise_report(problems)
    if node is None or isinstance(node.value, str | tuple):
        raise_report([Problem(node.mark, "", "a mapping with image and script")] if node else [])
        raise AssertionError(path)
    spec, problems = validate_node(JobSpec, node)
    raise_report(problems)
    if spec is None:
        raise AssertionError(path)
    found = JobFile(path.absolute(), spec, node)
    found.raise_problems(_check_paths(found))
    return found


def _check_paths(file: JobFile) -> Iterator[Finding]:
    """Yield what is not there, and numbers of hosts that are too many."""
    spec = file.spec
    folder = file.find_path(spec.source) if spec.source else None
    if folder and not folder.is_dir():
        yield ("source",), "a folder", f"no folder {folder}"
    programs: list[tuple[Keys, str]] = [
        (("groups", name, "program"), group.program) for name, group in spec.groups.items() if group.program
    ]
    for keys, word in [(("script",), spec.script), *programs]:
        if folder and (Path(word).is_absolute() or ".." in Path(word).parts):
            yield keys, f"a path in {spec.source}, which every host gets", word
        elif (not folder or folder.is_dir()) and not (folder / word if folder else file.find_path(word)).is_file():
            yield keys, "the file of an entry point", f"no file {folder / word if folder else file.find_path(word)}"
    for name, word in spec.channels.items():
        if not is_address(word) and not file.find_path(word).is_dir():
            yield ("channels", name), "a folder, or an address such as s3://bucket/data", f"no folder {word}"
    yield from _check_hosts(spec, MOST_PLACE_HOSTS, "")


def _check_hosts(spec: JobSpec, most: int, where: str) -> Iterator[Finding]:
    hosts = sum(int(group.hosts or spec.hosts) for group in spec.groups.values()) or int(spec.hosts)
    if hosts > most:
        yield ("groups" if spec.groups else "hosts",), f"at most {most} hosts in all{where}", str(hosts)


def make_options(file: JobFile) -> Options:
    """Return what the file asks for. Channels and checkpoints at addresses are not among it."""
    spec = file.spec

    def code(word: str) -> str:
        return word if spec.source else str(file.find_path(word))

    def by_group(kind: str) -> dict[str, str]:
        said = {name: getattr(group, kind) for name, group in spec.groups.items()}
        return {name: value for name, value in {ALL: getattr(spec.resources, kind), **said}.items() if value}

    checkpoints = spec.checkpoints if spec.checkpoints and not is_address(spec.checkpoints) else ""
    return Options(
        script=code(spec.script),
        hosts=int(spec.hosts),
        groups={name: int(group.hosts or 0) for name, group in spec.groups.items()},
        programs={name: code(group.program) for name, group in spec.groups.items() if group.program},
        source=str(file.find_path(spec.source)) if spec.source else "",
        distributed=spec.distributed,
        hyperparameters=spec.hyperparameters,
        channels={name: str(file.find_path(word)) for name, word in spec.channels.items() if not is_address(word)},
        checkpoints=str(file.find_path(checkpoints)) if checkpoints else "",
        environment={name: None if value == FromShell() else value for name, value in spec.environment.items()},
        cpus=by_group("cpus"),
        memory=by_group("memory"),
        gpus=by_group("gpus"),
        instance_types=by_group("instance_type"),
        shared_memory=spec.shared_memory,
        user=spec.user,
        stop_seconds=int(spec.grace),
        arguments=spec.arguments,
    )


def format_job(job: Job, options: Options, name: str, folder: Path) -> str:
    """Return the text of a file in `folder` that says what was typed. Values that look like secrets are left out."""
    only = not options.groups and not options.programs
    groups = {group.name: _describe_group(group, options, folder) for group in job.groups}
    common = groups[job.groups[0].name]
    spec = {
        "image": job.image,
        "name": name,
        "script": job.program if options.source else _shorten(options.script, folder),
        "source": _shorten(options.source, folder) if options.source else "",
        "arguments": list(options.arguments),
        "hosts": str(options.hosts) if only and options.hosts > 1 else "",
        "distributed": options.distributed,
        "groups": {} if only else groups,
        "hyperparameters": dict(options.hyperparameters),
        "channels": {key: _shorten(str(path), folder) for key, path in job.channels.items()},
        "checkpoints": _shorten(str(job.checkpoints), folder) if job.checkpoints else "",
        "environment": _describe_environment(options.environment),
        "resources": {key: value for key, value in common.items() if key != "hosts"} if only else {},
        "shared_memory": "" if options.shared_memory == SHARED_MEMORY else options.shared_memory,
        "user": options.user,
        "grace": "" if options.stop_seconds == STOP_SECONDS else str(options.stop_seconds),
    }
    said = {key: value for key, value in spec.items() if value}
    text = yaml.dump(said, Dumper=_PlainDumper, sort_keys=False, allow_unicode=True, width=120)
    return f"{HEAD}{text}"


class _PlainDumper(yaml.SafeDumper):
    """Writes text without quotes if it can: who reads the file takes every value for text."""


_PlainDumper.yaml_implicit_resolvers = {}


def _describe_group(group: Group, options: Options, folder: Path) -> dict[str, str]:
    said = {
        "hosts": str(len(group.hosts)),
        "program": group.program if options.source else _find_program(group.name, options, folder),
        "cpus": group.cpus,
        "memory": UNLIMITED if group.unlimited else group.memory,
        "gpus": group.gpus.strip('"'),
        "instance_type": "" if group.instance_type == LOCAL_INSTANCE else group.instance_type,
    }
    return {key: value for key, value in said.items() if value}


def _find_program(name: str, options: Options, folder: Path) -> str:
    """Return the file that was asked for in a group, or in all of them; empty if none was."""
    word = options.programs.get(name, options.programs.get(ALL, ""))
    return _shorten(word, folder) if word else ""


def _describe_environment(variables: Mapping[str, str | None]) -> dict[str, Any]:
    """Map variables to their values; one without a value, or whose name says that it is a secret, is the shell's."""
    return {
        name: {"from": FROM_SHELL} if value is None or SECRET.search(name) else value
        for name, value in variables.items()
    }


def _shorten(word: str, folder: Path) -> str:
    """Return a path from the file's folder if it is in it, else from the root."""
    # Path.expanduser raises an error for a user who is not there.
    path = Path(os.path.normpath(Path(os.path.expanduser(word)).absolute()))  # noqa: PTH111
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)


def list_local_refusals(file: JobFile) -> Iterator[Finding]:
    """Yield what this machine cannot do: data at an address, too many hosts, hosts that the file names itself."""
    yield from _check_hosts(file.spec, MOST_HOSTS, " on one machine")
    for name in file.spec.environment:
        if HOST_VARIABLE.fullmatch(name):
            yield ("environment", name), "hosts that dlc names", name
    named: list[tuple[Keys, str]] = [(("channels", name), word) for name, word in file.spec.channels.items()]
    for keys, word in [*named, (("checkpoints",), file.spec.checkpoints)]:
        if is_address(word):
            yield keys, "a folder of this machine, for a job that runs here", word


def list_unset(file: JobFile, shell: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the variables that the shell is to have, and has not."""
    for name, value in file.spec.environment.items():
        if value == FromShell() and name not in shell:
            yield ("environment", name), f"{name} in this shell's environment", "none"


def list_open_secrets(spec: JobSpec) -> list[str]:
    """Return a warning for each variable that is a secret by its name, and whose value the file shows."""
    return [
        f"environment.{name}: its value is in the file; write {name}: {{from: {FROM_SHELL}}} and set it in the shell"
        for name, value in spec.environment.items()
        if value and isinstance(value, str) and SECRET.search(name)
    ]


def make_schema() -> dict[str, Any]:
    """Return the JSON Schema for editors. Numbers, yes or no, and nothing may stand without quotes."""
    schema: dict[str, Any] = _allow_plain(JobSpec.model_json_schema())
    return schema


def _allow_plain(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_allow_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: _allow_plain(value) for key, value in schema.items()}
    is_free = plain.get("type") == "string" and "enum" not in plain
    return {**plain, "type": ["string", "number", "boolean", "null"]} if is_free else plain
