"""A job as places take it, from the few words that a test changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dlc.job.job_spec import GroupSpec, JobSpec
from dlc.job.values import FromShell

IMAGE = "registry.example/dlc/pytorch:2.13"


def group_of(name: str, hosts: int, **fields: Any) -> tuple[str, GroupSpec]:
    """A group by its name; `homogeneousCluster` is the only one of a job that names none."""
    return name, GroupSpec(hosts=hosts, **fields)


def spec_of(
    code: Path,
    *,
    groups: Iterable[tuple[str, GroupSpec]] = (),
    environment: Mapping[str, str] | None = None,
    secrets: Iterable[str] = (),
    folder: Path = Path("/nowhere"),
    **fields: Any,
) -> JobSpec:
    """`code` is the script, or a folder with train.py; `secrets` are variables of the shell."""
    script = {"source": str(code), "script": "train.py"} if code.is_dir() else {"script": str(code)}
    variables = {**(environment or {}), **dict.fromkeys(secrets, FromShell())}
    plain = JobSpec(image=IMAGE, name="digits", **script)
    # Not checked: tests of places have values that no file may have.
    spec = plain.model_copy(update={"groups": dict(groups), "environment": variables, **fields})
    return spec.place(spec.name, folder, lambda image: image)
