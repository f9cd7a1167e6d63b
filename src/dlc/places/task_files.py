"""What the task files of SkyPilot and dstack have in common: both run the same lines of shell on each host. Pure.

dlc writes these files and no more: their own clients send them, show their lines and stop them. May import core, job,
places.{place,refusals}.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from dlc.core.errors import UsageError
from dlc.job.job_spec import Group, JobSpec, describe_channels
from dlc.job.limits import count_bytes
from dlc.job.values import is_address
from dlc.places.place import BASE, LAUNCHER, Document, Refusal
from dlc.places.refusals import name_group_keys, refuse_images, refuse_variables

CODE, DATA, CHECKPOINTS, CONFIG = f"{BASE}/code", f"{BASE}/input/data", f"{BASE}/checkpoints", f"{BASE}/input/config"
GIBIBYTE = 1 << 30
# Of a group of dstack.
LONGEST_GROUP = 40


def list_lines(job: JobSpec, group: Group, hosts: str) -> list[str]:
    """Return the lines that each host of a group runs.

    `hosts` is the line that tells the launcher all hosts, and this one.
    """
    files: dict[str, Mapping[str, object]] = {
        "hyperparameters.json": {"sagemaker_program": json.dumps(job.program), **job.parameters},
        "inputdataconfig.json": describe_channels(group.channels),
    }
    written = [f"printf '%s\\n' {shlex.quote(json.dumps(text))} >{CONFIG}/{name}" for name, text in files.items()]
    train = shlex.join((*LAUNCHER, "train", *job.arguments))
    return [f"mkdir -p {CONFIG}", *written, hosts, f"exec {train}"]


def export_hosts(addresses: str, rank: str) -> str:
    """Return the line of hosts that are all alike.

    `addresses` and `rank` are the variables in which the client gives all hosts' addresses, a line for each, and the
    number of this one.
    """
    return f'export DLC_HOSTS="$(printf \'%s\' "${addresses}" | paste -sd, -)" DLC_RANK="${rank}"'


def name_group(group: Group) -> str:
    """Return a group's name as both clients take it: small letters, digits and -."""
    return make_plain(group.name)


def make_plain(name: str) -> str:
    """Return a name in small letters, digits and -."""
    return re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")


def list_code(job: JobSpec) -> dict[str, str]:
    """Map places in the container to the files, or the one folder, that come there."""
    if len(job.code) == 1 and job.code[0].is_dir():
        return {CODE: str(job.code[0])}
    return {f"{CODE}/{path.name}": str(path) for path in job.code}


def count_gibibytes(size: str) -> int:
    """Return a size in whole GiB, not less than it is."""
    return math.ceil(count_bytes(size) / GIBIBYTE)


def refuse_common(job: JobSpec, client: str) -> Iterator[Refusal]:
    """Yield what neither of them can do."""
    yield from refuse_images(job.list_images())
    yield from refuse_variables(job, client)
    for group in job.host_groups:
        if group.gpus and not group.gpus.isdigit():
            yield Refusal(name_group_keys(group.name, "gpus"), "a number of GPUs", group.gpus)
    names = Counter(name_group(group) for group in job.host_groups)
    for group in job.host_groups if job.has_groups else ():
        if names[name_group(group)] > 1 or not 1 <= len(name_group(group)) <= LONGEST_GROUP:
            expected = f"a name of its own in small letters, digits and -, {LONGEST_GROUP} characters at most"
            yield Refusal(("groups", group.name), expected, name_group(group) or group.name)


def refuse_folders(job: JobSpec, scheme: str) -> Iterator[Refusal]:
    """Yield channels and checkpoints that are not at an address that begins so."""
    for keys, word in job.list_data():
        if not (is_address(word) and word.startswith(scheme)):
            yield Refusal(keys, f"an address such as {scheme}NAME/folder", word)


def write_document(name: str, command: str, *values: Mapping[str, Any]) -> Document:
    """Return the file of one or several documents; its first line is the command that takes it."""
    # Slow to import, and what only asks for jobs needs none.
    from dlc.core.yaml_text import write_yaml

    text = write_yaml(*map(dict, values))
    return Document(name, f"# {command}\n{text}", values[0] if len(values) == 1 else list(values))


def refuse_client(client: str) -> UsageError:
    """Return the error of all that the client does itself."""
    return UsageError(
        f"dlc writes the file of {client}, and does not send it",
        f"`dlc submit ... --dry-run >FILE`, then the command in its first line; {client} shows and stops the job",
    )


class FilesAlone:
    """The part of a place that its own client does: each function raises UsageError with that client's command."""

    def __init__(self, client: str) -> None:
        self._client = client

    def submit_job(self, job: JobSpec, options: Any, document: Document, secrets: Mapping[str, str]) -> str:
        """Raise UsageError."""
        raise refuse_client(self._client)

    def list_jobs(self, options: Any) -> list[Any]:
        """Raise UsageError."""
        raise refuse_client(self._client)

    def print_logs(self, job_id: str, options: Any, out: TextIO, *, follow: bool) -> None:
        """Raise UsageError."""
        raise refuse_client(self._client)

    def wait_for_job(self, job_id: str, options: Any) -> int:
        """Raise UsageError."""
        raise refuse_client(self._client)

    def stop_job(self, job_id: str, options: Any) -> str:
        """Raise UsageError."""
        raise refuse_client(self._client)
