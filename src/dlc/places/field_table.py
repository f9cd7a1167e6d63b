"""What each place makes of each field of a job, found by trying: the table of docs/clusters.md.

A job is rendered with a field and without it. The place refuses the field, or its document differs, or it looks at the
value and gives no less. A field with none of these would be dropped silently: `read_cell` raises AssertionError.

May import core, job, places.place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlc.core.atomic_files import scratch_folder
from dlc.job.job_file import read_job_file
from dlc.job.job_spec import PLACES
from dlc.places.place import load_place, read_place_options

HONOURED, TRANSLATED, CHECKED, REFUSED = "honoured", "translated", "checked", "refused"
REGISTRY = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
BASE = {"image": f"{REGISTRY}/pytorch:2.13", "script": "train.py", "name": "digits"}
# What a place needs for any job.
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "sagemaker": (*("role=arn:aws:iam::123456789012:role/Training", "region=eu-west-1", "instance_type=ml.c5.xlarge"),),
}
# An option of each place.
PLACE_OPTIONS = {
    "local": {"platform": "probe"}, "slurm": {"partition": "probe"}, "kubernetes": {"queue": "probe"},
    "sagemaker": {"tags": {"probe": "73"}},
    "skypilot": {"infra": "probe"}, "dstack": {"fleet": "probe"},
}  # fmt: skip
GPU_MACHINE = ("instance_type=ml.p3.16xlarge",)


@dataclass(frozen=True)
class Probe:
    """A field, and a value of it."""

    field: str
    # What replaces a part of the base.
    value: Mapping[str, object]
    # What a document has of the value if it has it as it was written; a regular expression.
    written: str
    # A value of which a place that looks at it refuses the job.
    too_much: Mapping[str, object] | None = None
    # Options that a place needs with this field: of the place, words of --with.
    options: Mapping[str, tuple[str, ...]] | None = None
    # What the job has besides, with the field and without it.
    base: Mapping[str, object] | None = None


def list_probes() -> list[Probe]:
    """Return a probe for each field of a job's file, and for the kinds of values that places treat in other ways."""
    addresses = ("s3://bucket/data", "pvc://claim/data", "volume://data")
    accelerated = {"skypilot": ("accelerator=V100",), "sagemaker": GPU_MACHINE}
    return [
        Probe("image", {"image": f"{REGISTRY}/another:1"}, r"another:1"),
        Probe("image, without its registry", {"image": "another:1"}, r"(?<!/)another:1"),
        Probe("script", {"script": "other.py"}, "other.py"),
        Probe("name", {"name": "another"}, "another"),
        Probe("source", {"source": "code", "script": "other.py"}, "other.py"),
        Probe("arguments", {"arguments": ["--probe"]}, "--probe"),
        Probe("hosts", {"hosts": "73"}, "73"),
        Probe("distributed", {"distributed": "torchrun"}, "distributed: torchrun"),
        Probe("groups", {"groups": {"data": {}, "dnn": {}}}, "data"),
        _probe_group("hosts", "73", "73"),
        _probe_group("program", "other.py", "other.py"),
        _probe_group("image", f"{REGISTRY}/another:1", "another:1"),
        _probe_group("channels, a folder", {"training": "data"}, "/data"),
        *(_probe_group(f"channels, {word}", {"training": word}, word) for word in addresses),
        Probe("hyperparameters", {"hyperparameters": {"probe": "73"}}, "probe"),
        Probe("channels, a folder", {"channels": {"training": "data"}}, "/data"),
        *(Probe(f"channels, {word}", {"channels": {"training": word}}, word) for word in addresses),
        Probe("checkpoints, a folder", {"checkpoints": "data"}, "/data"),
        *(Probe(f"checkpoints, {word}", {"checkpoints": word}, word) for word in addresses),
        Probe("environment", {"environment": {"PROBE": "73"}}, "PROBE"),
        Probe("environment, DLC_HOSTS and its like", {"environment": {"DLC_HOSTS": "a,b"}}, "a,b"),
        Probe("resources.cpus", {"resources": {"cpus": "3"}}, "3", {"resources": {"cpus": "9999"}}),
        Probe("resources.memory", {"resources": {"memory": "3g"}}, "3g", {"resources": {"memory": "9999g"}}),
        Probe("resources.gpus, a number", {"resources": {"gpus": "8"}}, "8", {"resources": {"gpus": "9999"}},
              accelerated),
        Probe("resources.gpus, all", {"resources": {"gpus": "all"}}, "all",
              {"resources": {"gpus": "9999"}}, accelerated),
        Probe("resources.gpus, device=0", {"resources": {"gpus": "device=0"}}, "device=0", None, accelerated),
        Probe("resources.instance_type", {"resources": {"instance_type": "ml.p3.16xlarge"}}, "ml.p3.16xlarge", None,
              {"sagemaker": ("instance_type=",)}),
        Probe("shared_memory", {"shared_memory": "3g"}, "3g"),
        Probe("user", {"user": "73"}, "73"),
        Probe("places", {"places": PLACE_OPTIONS}, "probe"),
        Probe("grace", {"grace": "73"}, "73", {"grace": "9999"}),
    ]  # fmt: skip


def _probe_group(field: str, value: object, written: str) -> Probe:
    """Return a probe for a field of one of two groups."""
    groups = {"data": {field.partition(", ")[0]: value}, "dnn": {}}
    return Probe(f"groups.*.{field}", {"groups": groups}, written, base={"groups": {"data": {}, "dnn": {}}})


def make_table() -> str:
    """Return the table: a row for each field, a column for each place."""
    rows = [f"| field | {' | '.join(PLACES)} |", "|---" * (len(PLACES) + 1) + "|"]
    with scratch_folder("dlc-fields-") as folder:
        for name in ("train.py", "other.py", "code/other.py", "data/rows"):
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("")
        for probe in list_probes():
            cells = [read_cell(probe, place, folder) for place in PLACES]
            rows.append(f"| `{probe.field.partition(', ')[0]}`{_say_kind(probe)} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _say_kind(probe: Probe) -> str:
    kind = probe.field.partition(", ")[2]
    return f", {kind}" if kind else ""


def read_cell(probe: Probe, place: str, folder: Path) -> str:
    """Return what a place makes of a field. Raises AssertionError if it says nothing of it."""
    options = (probe.options or {}).get(place, ())
    without = _render(probe.base or {}, place, options, folder)
    found = _render(probe.value, place, options, folder)
    if found is None:
        return REFUSED
    if new := "\n".join(set(found.splitlines()) - set((without or "").splitlines())):
        return HONOURED if re.search(probe.written, new) else TRANSLATED
    if probe.too_much and _render(probe.too_much, place, options, folder) is None:
        return CHECKED
    raise AssertionError(f"{place} drops {probe.field} without a word")


def _render(value: Mapping[str, object], place: str, options: Sequence[str], folder: Path) -> str | None:
    """Return what the place gets of the base job with a field of this value; None if it refuses the job."""
    from dlc.core.yaml_text import write_yaml

    path = folder / "job.yml"
    path.write_text(write_yaml({**BASE, **value}))
    stated = read_job_file(path)
    module = load_place(place)
    chosen = read_place_options(module, place, stated.node, [*OPTIONS.get(place, ()), *options])
    job = stated.spec.place(stated.spec.name, folder / "dlc-jobs", lambda image: image)
    return None if module.refuse_job(job, chosen) else module.render_job(job, chosen).text
