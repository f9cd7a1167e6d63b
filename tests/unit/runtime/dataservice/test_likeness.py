"""What a few prints of samples tell of two data hosts: other data, chance, or what belongs to the host."""

from __future__ import annotations

import random

import pytest

from dlc_runtime.dataservice.schedule import likeness
from dlc_runtime.dataservice.schedule.assignment import Sampling
from dlc_runtime.dataservice.server.batch_source import BatchMaker, BatchSource
from dlc_runtime.dataservice.server.sample_prints import draw_twice
from harness.examples import count


class Chance:
    """A sample that is sometimes another one, by a generator that each host has for itself."""

    def __init__(self, share: float, own: random.Random) -> None:
        self.share, self.own = share, own

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> object:
        return [index, b"changed" if self.own.random() < self.share else b"plain", 0.1 * index]


def prints_of(dataset: object) -> list[list[object]]:
    maker = BatchMaker(BatchSource(dataset, list, Sampling(len(dataset), 1)))  # type: ignore[arg-type]
    return [draw_twice(maker, index) for index in likeness.choose(len(dataset))]  # type: ignore[arg-type]


def test_the_same_samples_are_drawn_on_every_host_and_each_is_one_of_the_dataset() -> None:
    for samples in (1, 2, 5, 16, 200, 10**9):
        assert likeness.choose(samples) == likeness.choose(samples)
        assert all(0 <= number < samples for number in likeness.choose(samples))
    assert len(set(likeness.choose(200))) == likeness.MANY
    assert likeness.choose(0) == []


def test_equal_data_are_alike_and_another_order_or_content_is_not() -> None:
    plain = [*range(100)]
    assert not likeness.compare(prints_of(plain), prints_of(plain)).others
    for other in (plain[::-1], [*range(1, 101)], [str(number) for number in plain], [*plain[:50], *range(50)]):
        assert likeness.compare(prints_of(plain), prints_of(other)).is_of_other_data


def test_two_samples_that_changed_places_are_told_from_each_other_and_a_single_file_is_no_other_data() -> None:
    assert likeness.compare(prints_of([1, 2]), prints_of([2, 1])).is_of_other_data
    plain, first = [*range(100)], likeness.choose(100)[0]
    found = likeness.compare(prints_of(plain), prints_of([*plain[:first], -1, *plain[first + 1 :]]))
    assert found.others == (0,)
    assert not found.is_of_other_data


@pytest.mark.parametrize("share", [0.02, 0.05, 0.1, 0.5, 0.9])
def test_chance_of_the_users_own_is_no_other_data_however_seldom_it_acts(share: float) -> None:
    found = 0
    for seed in range(count(200)):
        hosts = [prints_of(Chance(share, random.Random(f"{share} {seed} {host}"))) for host in range(2)]
        found += likeness.compare(*hosts).is_of_other_data
    assert found <= 1


def test_what_tells_of_a_host_in_every_sample_is_left_out_and_of_a_path_its_name_counts() -> None:
    hosts = [[(index, f"algo-{host}", f"/tmp/{host}/{index}.jpg") for index in range(50)] for host in range(2)]
    assert not likeness.compare(*map(prints_of, hosts)).others
    names = [[f"/data/{index}.jpg" for index in order] for order in (range(50), reversed(range(50)))]
    assert likeness.compare(*map(prints_of, names)).is_of_other_data


def test_floats_that_another_processor_rounds_otherwise_are_alike() -> None:
    plain = [[0.5 * index, -2.0, float("nan")] for index in range(50)]
    nearly = [[first * (1 + 1e-6), second - 1e-6, third] for first, second, third in plain]
    assert not likeness.compare(prints_of(plain), prints_of(nearly)).others
    assert not likeness.is_alike([1.0, 2.0], [1.0, 2.1])
    assert not likeness.is_alike([1.0], "1.0")


def test_a_sample_that_cannot_be_made_is_not_compared() -> None:
    class Broken(Chance):
        def __getitem__(self, index: int) -> object:
            raise OSError("no such file")

    found = likeness.compare(prints_of(Broken(0, random.Random())), prints_of([*range(1000)]))
    assert (found.others, found.compared) == ((), 0)
