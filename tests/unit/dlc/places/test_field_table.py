"""The table of fields and places in docs/clusters.md: no place drops a field of a job without a word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from dlc.job.job_spec import PLACES, GroupSpec, JobSpec, Resources
from dlc.places import field_table, slurm
from dlc.places.field_table import make_table, read_cell

PAGE = Path(__file__).parents[4] / "docs/clusters.md"


def list_leaves(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = field.annotation
        yield from (f"{name}.{leaf}" for leaf in inner.model_fields) if inner is Resources else (name,)


def test_the_table_has_every_field_of_a_job_and_is_what_the_places_do() -> None:
    own = {f"groups.*.{name}" for name in GroupSpec.model_fields if name not in Resources.model_fields}
    assert set(list_leaves(JobSpec)) | own <= {probe.field.partition(", ")[0] for probe in field_table.list_probes()}
    assert make_table() in PAGE.read_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").touch()
    return tmp_path


@pytest.mark.parametrize("field", ["shared_memory", "resources.instance_type", "user"])
def test_a_place_that_drops_a_field_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    """As Slurm did: the job for a large machine ran on any node."""
    [probe] = [each for each in field_table.list_probes() if each.field == field]
    assert read_cell(probe, "slurm", folder) in ("refused", "translated")
    render = slurm.render_job

    def forget(job: Any, options: Any) -> Any:
        return render(job.model_copy(update={"resources": Resources()}), options)

    monkeypatch.setattr(slurm, "refuse_job", lambda job, options: [])
    monkeypatch.setattr(slurm, "render_job", forget)
    with pytest.raises(AssertionError, match=f"slurm drops {field} without a word"):
        read_cell(probe, "slurm", folder)


def test_the_columns_are_the_places() -> None:
    assert make_table().splitlines()[0] == f"| field | {' | '.join(PLACES)} |"
