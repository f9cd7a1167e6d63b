"""Every sample of an epoch reaches exactly one training rank, in a fixed order, whatever happens to the data hosts."""

from __future__ import annotations

import os
import random
import signal
from itertools import chain

import pytest
from service_runs import Host, Rank, Service, answer_of, wait_for

from dlc_runtime.dataservice.schedule.assignment import Epoch, Sampling, Share
from harness.ports import free_port

RANKS = 4
BATCH = 20
SAMPLES = 200_000
SEEDS = range(5)


def expected(seed: int, rank: int, world: int, samples: int, batch: int = BATCH) -> list[list[int]]:
    """What the plan says that a rank gets, computed without any process."""
    sampling = Sampling(samples, batch, shuffle=True, seed=seed)
    epoch = Epoch(sampling, 0)
    return [epoch.indices(id_) for id_ in Share(rank, world).ids(sampling.batches)]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_sample_is_missing_or_doubled_and_the_order_holds_while_data_hosts_are_killed(
    service: Service, seed: int
) -> None:
    chance = random.Random(seed)
    options = {"batch_size": BATCH, "shuffle": True, "seed": seed}
    ports = [free_port() for _ in range(3)]
    servers = [service.serve("Numbers", SAMPLES, port, **options)[0] for port in ports]
    ranks = [service.take(ports, rank=rank, world=RANKS) for rank in range(RANKS)]
    total = SAMPLES // BATCH
    kills = sorted(chance.randrange(total // 20, total * 9 // 10) for _ in range(chance.randint(6, 12)))
    for at in kills:
        wait_for(lambda at=at: taken(ranks) >= at or all_ended(ranks), lambda: ranks[0].log)
        one = chance.randrange(3)
        if chance.random() < 0.5:
            kill_one_process(servers[one], chance)
        else:
            servers[one].kill()
            servers[one] = service.serve("Numbers", SAMPLES, ports[one], **options)[0]
    found = [rank.finish().batches for rank in ranks]
    for rank in range(RANKS):
        assert found[rank] == expected(seed, rank, RANKS, SAMPLES)
    assert sorted(chain(*chain(*found))) == list(range(SAMPLES))


def taken(ranks: list[Rank]) -> int:
    return sum(rank.count for rank in ranks)


def all_ended(ranks: list[Rank]) -> bool:
    return all(rank.process.poll() is not None for rank in ranks)


def kill_one_process(server: Host, chance: random.Random) -> None:
    """A worker or the control process."""
    children = server.children()
    if children:
        os.kill(chance.choice(children), signal.SIGKILL)


@pytest.mark.parametrize("count", [1, 3])
def test_the_order_is_the_same_for_any_number_of_data_hosts_and_whatever_a_batch_takes(
    service: Service, count: int
) -> None:
    ports = [service.serve("Delayed", 300, batch_size=5, shuffle=True, seed=3)[1] for _ in range(count)]
    assert service.take(ports).finish().batches == expected(3, 0, 1, 300, 5)


def test_random_numbers_of_the_users_code_are_the_same_on_whichever_worker_draws_them(service: Service) -> None:
    runs = []
    for count in (1, 2):
        ports = [service.serve("Drawn", 60, batch_size=3)[1] for _ in range(count)]
        runs.append(service.take(ports).finish().batches)
    assert runs[0] == runs[1]
    drawn = [number for _, number in chain(*runs[0])]
    assert len(set(drawn)) == 60


def test_each_epoch_has_an_order_of_its_own_and_every_sample_once(service: Service) -> None:
    _, port = service.serve("Numbers", 100, batch_size=10, shuffle=True)
    samples = service.take([port], epochs=3).finish().samples
    epochs = [samples[at : at + 100] for at in (0, 100, 200)]
    assert all(sorted(epoch) == list(range(100)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_an_iteration_after_one_that_was_left_is_the_next_epoch_from_its_beginning(service: Service) -> None:
    _, port = service.serve("Numbers", 100, batch_size=10, shuffle=True)
    taken = service.take([port], epochs=2, stop_at=3).finish()
    epochs = [Epoch(Sampling(100, 10, shuffle=True), number) for number in range(2)]
    assert taken.batches == [epoch.indices(id_) for epoch in epochs for id_ in range(3)]
    assert (taken.end["state"]["epoch"], taken.end["state"]["taken"]) == (1, 3)


def test_a_loader_that_is_left_and_dropped_leaves_nothing_behind_and_the_next_one_goes_on(grpc_python: str) -> None:
    found = answer_of(grpc_python, "dropped_loaders.py")
    assert found["left behind"] == {"threads": 0, "descriptors": 0}
    assert found["waiting after a break"] == 0
    assert len(found["said"]) == 1
    assert "a RemoteLoader was dropped that nobody had closed" in found["said"][0]
    assert [sorted(epoch) for epoch in found["epochs"]] == [list(range(60))] * 3
    assert len({str(epoch) for epoch in found["epochs"]}) == 3
    assert found["stated"] == found["epochs"][0]
    assert found["another rank"] == found["its share of the first epoch"]


def test_ranks_whose_shares_differ_are_warned_of_what_waits_for_ever(service: Service) -> None:
    _, port = service.serve("Numbers", 100, batch_size=10)
    uneven = service.take([port], rank=0, world=3)
    even = service.take([port], rank=0, world=3, tail="drop")
    assert (len(uneven.finish().batches), len(even.finish().batches)) == (4, 3)
    assert "tail='drop'" in uneven.log
    assert "tail='drop'" not in even.log


def test_a_data_host_that_joins_late_takes_part(service: Service) -> None:
    late = free_port()
    first, port = service.serve("Numbers", 400, batch_size=2, workers=1)
    rank = service.take([port, late], step=0.01)
    wait_for(lambda: rank.count > 3, lambda: rank.log)
    rank.signal_all(signal.SIGSTOP)  # so it has not ended when the other host serves, however long that takes to start
    assert rank.count < 150
    joined, _ = service.serve("Numbers", 400, late, batch_size=2, workers=1)
    wait_for(lambda: "1 workers" in joined.log, lambda: joined.log)
    first.kill()
    rank.signal_all(signal.SIGCONT)
    assert rank.finish().samples == list(range(400))


def test_a_forked_process_has_connections_of_its_own_and_takes_nothing_of_its_parents(grpc_python: str) -> None:
    found = answer_of(grpc_python, "after_a_fork.py")
    batches = [list(range(start, start + 4)) for start in range(0, 40, 4)]
    assert found["parent"] == batches
    assert found["child"]["batches"] == batches
    assert "this one has ended" in found["child"]["said"]
