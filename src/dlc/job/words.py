"""The options by which a command line says a job: what each is called, and where its value stands in a job's file."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from dlc.checked_yaml.problems import Mark
from dlc.checked_yaml.yaml_layers import Node
from dlc.core.errors import UsageError
from dlc.job.job_spec import ONLY_GROUP, SHARED_MEMORY, STOP_SECONDS
from dlc.job.limits import DEVICES
from dlc.job.stated_job import StatedJob, state_job
from dlc.job.strategies import STRATEGIES
from dlc.job.values import FROM_SHELL

# Where the value of a word stands in the file, and the value; the value may be a mapping.
Said = tuple[tuple[str, ...], Any]


@dataclass(frozen=True)
class Flag:
    """An option of a job. `read` is of a word and the job's groups; `keys` are those of the file."""

    option: str
    keys: str
    form: str
    meaning: str
    read: Callable[[Flag, str, Collection[str]], Said]
    is_repeated: bool = True

    @property
    def field(self) -> str:
        """Return the name of its attribute among parsed arguments."""
        return self.option.strip("-").replace("-", "_")


def _read_plain(flag: Flag, word: str, _groups: Collection[str]) -> Said:
    return (flag.keys,), word


def _read_pair(flag: Flag, word: str, _groups: Collection[str]) -> Said:
    key, separator, value = word.partition("=")
    if not separator or not key:
        raise _usage_error(flag.option, flag.form, repr(word))
    return (flag.keys, key), value


def _read_variable(flag: Flag, word: str, _groups: Collection[str]) -> Said:
    name, separator, value = word.partition("=")
    if not name:
        raise _usage_error(flag.option, flag.form, repr(word))
    return (flag.keys, name), value if separator else {"from": FROM_SHELL}


def _read_group(flag: Flag, word: str, _groups: Collection[str]) -> Said:
    name, separator, number = word.partition("=")
    if separator and not number:
        raise _usage_error(flag.option, f"{flag.form}, such as data_group=2", word)
    return (flag.keys, name), {"hosts": number} if number else {}


def _read_of_group(flag: Flag, word: str, groups: Collection[str]) -> Said:
    """Read GROUP=VALUE."""
    group, separator, value = word.partition("=")
    if not separator or not value:
        raise _usage_error(flag.option, flag.form, repr(word))
    return ("groups", _require_group(flag, group, groups), flag.keys), value


def _read_by_group(flag: Flag, word: str, groups: Collection[str]) -> Said:
    """Read GROUP=VALUE for one group, or VALUE alone for those that have none."""
    group, separator, value = word.partition("=")
    is_device = flag.option == "--gpus" and DEVICES.match(word)
    if is_device and group in groups and value[:1].isdigit():
        hint = "another name for the group, or the job in a file, for this is a group's number or a device"
        raise _usage_error(flag.option, hint, f"{word} and a group {group}")
    if (separator and group in groups) or not (is_device or not separator):
        keys: tuple[str, ...] = ("groups", _require_group(flag, group, groups), flag.keys)
    else:
        keys, value = ("resources", flag.keys), word
    if not value:
        raise _usage_error(flag.option, flag.form, repr(word))
    return keys, value


def _read_channel(flag: Flag, word: str, groups: Collection[str]) -> Said:
    (_, name), value = _read_pair(flag, word, groups)
    group, slash, own = name.partition("/")
    return (("groups", _require_group(flag, group, groups), "channels", own) if slash else ("channels", name)), value


def _require_group(flag: Flag, name: str, groups: Collection[str]) -> str:
    if name not in groups:
        raise _usage_error(flag.option, f"a group out of {', '.join(groups)}", repr(name))
    return name


FLAGS = (
    Flag("--hosts", "hosts", "N", "hosts of the job, or of each group", _read_plain, False),
    Flag("--distributed", "distributed", "STRATEGY", f"train one model together: {', '.join(STRATEGIES)}; without it "
         "each host runs SCRIPT for itself", _read_plain, False),
    Flag("--group", "groups", "NAME=N", "an instance group of N hosts", _read_group),
    Flag("--program", "program", "GROUP=FILE", "the entry point of one group", _read_of_group),
    Flag("--group-image", "image", "GROUP=ID", "the image of one group", _read_of_group),
    Flag("--source", "source", "DIR", "a folder of code; SCRIPT and FILE are paths in it", _read_plain, False),
    Flag("--hp", "hyperparameters", "KEY=VALUE", "a hyperparameter", _read_pair),
    Flag("--channel", "channels", "[GROUP/]NAME=DIR", "an input channel, which the job cannot write to", _read_channel),
    Flag("--checkpoints", "checkpoints", "DIR", "/opt/ml/checkpoints of all hosts; the next job may go on from it",
         _read_plain, False),
    Flag("--env", "environment", "NAME[=VALUE]", "a variable; without a value this shell's", _read_variable),
    Flag("--cpus", "cpus", "[GROUP=]N", "CPUs of a host, such as 0.5; 0 is no limit", _read_by_group),
    Flag("--memory", "memory", "[GROUP=]SIZE", "memory of a host, such as 512m or 4g; 0 is no limit", _read_by_group),
    Flag("--gpus", "gpus", "[GROUP=]GPUS", "GPUs of a host: all, a number, or device=0,1", _read_by_group),
    Flag("--instance-type", "instance_type", "[GROUP=]TYPE", "what the job is told that its hosts are (default: local)",
         _read_by_group),
    Flag("--shm-size", "shared_memory", "SIZE", f"shared memory of a host (default: {SHARED_MEMORY})", _read_plain,
         False),
    Flag("--user", "user", "USER", "who runs in the containers; as for `docker run`", _read_plain, False),
    Flag("--grace", "grace", "SECONDS", f"from a stop to SIGKILL (default: {STOP_SECONDS})", _read_plain, False),
)  # fmt: skip


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the options of a job."""
    for flag in FLAGS:
        how = {"action": "append", "default": []} if flag.is_repeated else {"default": ""}
        again = "; may be repeated" if flag.is_repeated else ""
        parser.add_argument(flag.option, metavar=flag.form, help=f"{flag.meaning}{again}", **how)


def list_typed(args: argparse.Namespace) -> Iterator[tuple[Flag, str]]:
    """Yield the options of a job that were typed, each with its word."""
    for flag in FLAGS:
        words = getattr(args, flag.field, None) or ()
        yield from ((flag, word) for word in ([words] if isinstance(words, str) else words))


def read_words(args: argparse.Namespace) -> StatedJob:
    """Return the job that a command line says: its image, its script, its options, and what is behind the script.

    Raises UsageError for what is wrong.
    """
    tree = {name: Node(word, Mark(word)) for name, word in (("image", args.image), ("script", args.script))}
    typed = [*list_typed(args)]
    groups = [word.partition("=")[0] for flag, word in typed if flag.option == "--group"] or [ONLY_GROUP]
    for flag, word in typed:
        keys, value = flag.read(flag, word, groups)
        _put(tree, keys, value, Mark(_name_word(flag, keys)), Mark(flag.option))
    if arguments := getattr(args, "arguments", None):
        behind = Mark("--")
        tree["arguments"] = Node(tuple(Node(word, behind) for word in arguments), behind)
    return state_job(Node(tree, Mark("dlc")), Path.cwd(), is_file=False)


def _name_word(flag: Flag, keys: Sequence[str]) -> str:
    """Return the option, with the word before its `=`."""
    named = [key for key in keys if key not in (flag.keys, "groups", "resources", "channels")]
    return f"{flag.option} {'/'.join(named)}" if named else flag.option


def _put(tree: dict[str, Node], keys: Sequence[str], value: Any, mark: Mark, option: Mark) -> None:
    """Put a value into a tree of mappings. Raises UsageError if the place has one."""
    *above, last = keys
    for key in above:
        tree = cast("dict[str, Node]", tree.setdefault(key, Node({}, option)).value)
    if last in tree and not (isinstance(value, dict) and not tree[last].value):
        raise UsageError(f"{mark}: expected it once, found it twice")
    if isinstance(value, dict):
        value = {key: Node(each, mark, mark) for key, each in value.items()}
    tree[last] = Node(value, mark, mark)


def _usage_error(where: str, expected: str, found: str) -> UsageError:
    return UsageError(f"{where}: expected {expected}, found {found}")
