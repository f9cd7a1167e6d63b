"""What the user's collate returns is what the training loop gets, through real processes with torch."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from service_runs import Service, answer_of


def test_every_structure_and_dtype_arrives_as_it_was_and_kept_batches_stay_as_they_are(torch_python: str) -> None:
    found = answer_of(torch_python, "batch_kinds.py")
    assert found["wrong"] == []
    assert found["count"] == 23
    assert found["lstm"] == [6, 2]  # a packed sequence is one again, which torch's layers ask for
    assert found["moved"]
    assert found["kept"] == []
    assert "batch['a']: a masked array" in found["masked"]
    assert "batch['b']: a tensor of torch.float32" in found["nested"]
    assert {"bfloat16", "float16", "int64", "bool", "complex64"} <= set(found["dtypes"])


def test_one_line_around_an_existing_data_loader_serves_what_it_would_have_loaded(torch_python: str) -> None:
    first, second = answer_of(torch_python, "around_a_loader.py")
    assert (first["length"], second["length"]) == (4, 3)
    assert (first["samples"], first["batch_size"]) == (50, 8)
    labels = first["labels"] + second["labels"]
    assert sorted(chain(*labels)) == list(range(50))
    assert sorted(chain(*labels)) != list(chain(*labels))  # it is shuffled, as the loader says
    assert sorted(map(len, labels)) == [2, 8, 8, 8, 8, 8, 8]
    assert first["pairs"]
    assert second["pairs"]
    assert first["workers"] == [3]  # get_worker_info() tells what a DataLoader's worker would see
    assert first["threads"] == [1]
    assert not first["shared"]  # no batch needs /dev/shm, which is small in many containers: it leaves by a socket


@pytest.mark.parametrize("stop", [0, 1, 17, 49])
def test_a_job_stopped_in_an_epoch_goes_on_with_the_next_batch_also_from_other_data_hosts(
    service: Service, stop: int
) -> None:
    options = {"batch_size": 4, "shuffle": True, "seed": 5}
    ports = [service.serve("Numbers", 200, **options)[1] for _ in range(3)]
    whole = service.take(ports[:1]).finish().batches
    if stop:
        first = service.take(ports[:2], stop_at=stop).finish()
        state = first.end["state"]
    else:
        state = {**service.take(ports[:1]).finish().end["state"], "epoch": 0}
        first = None
    second = service.take(ports[2:], state=state).finish()
    assert (first.batches if first else []) + second.batches == whole
    assert second.end["length"] == 50


def test_a_job_that_stopped_with_two_ranks_goes_on_with_three(service: Service) -> None:
    ports = [service.serve("Numbers", 200, batch_size=4, shuffle=True)[1]]
    first = [service.take(ports, rank=rank, world=2, stop_at=11).finish() for rank in range(2)]
    second = [service.take(ports, rank=rank, world=3, state=first[0].end["state"]).finish() for rank in range(3)]
    assert sorted(chain(*(taken.samples for taken in [*first, *second]))) == list(range(200))


@pytest.fixture(scope="module")
def kinds(torch_python: str) -> dict[str, Any]:
    return dict(answer_of(torch_python, "loader_kinds.py"))


def test_a_batch_sampler_that_the_script_made_decides_what_a_batch_is(kinds: dict[str, Any]) -> None:
    assert kinds["batch sampler"] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [len(batch) for batch in kinds["shuffled batch sampler"]] == [4, 4, 2]
    assert sorted(chain(*kinds["shuffled batch sampler"])) == list(range(10))
    assert kinds["samples"] == list(range(10))


def test_a_batch_sampler_of_another_kind_is_refused_by_its_class(kinds: dict[str, Any]) -> None:
    assert "the DataLoader's batch_sampler is a Own" in kinds["own batch sampler"]
    assert "the DataLoader's batch_sampler is a list" in kinds["list of batches"]


def test_the_generator_of_a_sampler_is_the_seed_of_the_order(kinds: dict[str, Any]) -> None:
    assert kinds["seed 1"] != kinds["seed 2"]


def test_an_iterable_dataset_is_refused_also_where_it_has_a_length(kinds: dict[str, Any]) -> None:
    assert "a WithLength is not indexable" in kinds["iterable with a length"]


def test_what_is_drawn_from_a_library_that_is_imported_with_the_first_sample_follows_from_the_seed_too(
    torch_python: str,
) -> None:
    first, second = answer_of(torch_python, "late_numpy.py")
    assert first == second
