"""First come, first served, with processes: no sample goes to two ranks, and none is lost with a rank."""

from __future__ import annotations

import os
import signal
from itertools import chain

import pytest
from service_runs import Rank, Service, wait_for

from dlc_runtime.dataservice.schedule.progress import merge_states
from harness.ports import free_port


def first_come(service: Service, ports: list[int], world: int, **options: object) -> list[Rank]:
    place = f"127.0.0.1:{free_port()}"
    told = {"order": "first_come", "leases": place, "world": world, **options}
    return [service.take(ports, rank=rank, **told) for rank in range(world)]


def test_the_faster_rank_gets_more_and_every_sample_goes_to_one_rank(service: Service) -> None:
    ports = [service.serve("Numbers", 4000, batch_size=10, shuffle=True)[1] for _ in range(2)]
    place = f"127.0.0.1:{free_port()}"
    told = {"order": "first_come", "leases": place, "world": 3, "prefetch": 4}
    ranks = [service.take(ports, rank=rank, step=step, **told) for rank, step in enumerate((0.0, 0.005, 0.05))]
    found = [rank.finish().batches for rank in ranks]
    assert sorted(chain(*chain(*found))) == list(range(4000))
    assert len(found[0]) > 2 * len(found[2]) > 0


@pytest.mark.parametrize(("steps", "between"), [((0.05, 1.5), 1.5), ((1.5, 0.05), 0.0)])
def test_a_rank_may_wait_for_the_others_last_step_and_evaluate_between_epochs(
    service: Service, steps: tuple[float, float], between: float
) -> None:
    _, port = service.serve("Numbers", 60, batch_size=10)
    place = f"127.0.0.1:{free_port()}"
    told = {"order": "first_come", "leases": place, "world": 2, "prefetch": 2, "epochs": 2, "between": between}
    ranks = [service.take([port], rank=rank, step=step, **told) for rank, step in enumerate(steps)]
    found = [sample for rank in ranks for sample in rank.finish().samples]
    assert sorted(found) == sorted([*range(60), *range(60)])


def test_under_killed_data_hosts_no_sample_is_missing_or_doubled(service: Service) -> None:
    ports = [free_port() for _ in range(3)]
    servers = [service.serve("Numbers", 30000, port, batch_size=10)[0] for port in ports]
    ranks = first_come(service, ports, 4)
    for at in (200, 700, 1200, 1700, 2200):
        wait_for(lambda at=at: sum(rank.count for rank in ranks) > at, lambda: ranks[0].log)
        one = at % 3
        servers[one].kill()
        servers[one] = service.serve("Numbers", 30000, ports[one], batch_size=10)[0]
    assert sorted(chain(*(rank.finish().samples for rank in ranks))) == list(range(30000))


def test_a_rank_that_dies_gives_back_what_it_had_not_taken(service: Service) -> None:
    _, port = service.serve("Numbers", 3000, batch_size=10)
    ranks = first_come(service, [port], 3, when_lost="give_back", lost_after=3.0, step=0.01)
    wait_for(lambda: ranks[2].count > 10, lambda: ranks[2].log)
    os.kill(ranks[2].process.pid, signal.SIGKILL)
    samples = list(chain(ranks[0].finish().samples, ranks[1].finish().samples, ranks[2].taken.samples))
    assert len(samples) == len(set(samples))
    missing = set(range(3000)) - set(samples)
    assert len(missing) <= 10  # the batch in its hands: it may have been trained or not


def test_a_rank_that_dies_fails_the_others_by_its_number_where_that_is_chosen(service: Service) -> None:
    _, port = service.serve("Numbers", 100000, batch_size=10)
    ranks = first_come(service, [port], 2, when_lost="fail", lost_after=3.0, step=0.01)
    wait_for(lambda: ranks[1].count > 10, lambda: ranks[1].log)
    ranks[1].kill()
    assert ranks[0].wait() == 1
    assert "ConsumerLostError: training rank 1 is gone" in ranks[0].log


def test_a_rank_that_was_paused_for_longer_than_it_may_gives_out_nothing_any_more(service: Service) -> None:
    _, port = service.serve("Numbers", 3000, batch_size=10)
    ranks = first_come(service, [port], 2, when_lost="give_back", lost_after=2.0, step=0.01)
    wait_for(lambda: ranks[1].count > 10, lambda: ranks[1].log)
    ranks[1].signal_all(signal.SIGSTOP)
    first = ranks[0].finish().samples
    ranks[1].signal_all(signal.SIGCONT)
    assert ranks[1].wait() == 1
    second = ranks[1].taken.samples
    assert "ConsumerLostError" in ranks[1].log
    assert not set(first) & set(second)
    assert len(set(range(3000)) - set(first) - set(second)) <= 10


def test_without_rank_zero_the_others_say_so(service: Service) -> None:
    _, port = service.serve("Numbers", 100000, batch_size=10)
    ranks = first_come(service, [port], 2, step=0.01)
    wait_for(lambda: ranks[1].count > 5, lambda: ranks[1].log)
    ranks[0].kill()
    assert ranks[1].wait() == 1
    assert "ConsumerLostError: training rank 0, which keeps the leases at 127.0.0.1:" in ranks[1].log


def test_a_rank_zero_that_stands_still_for_longer_than_the_patience_is_named(service: Service) -> None:
    _, port = service.serve("Numbers", 100000, batch_size=10)
    ranks = first_come(service, [port], 2, step=0.01, patience=6.0)
    wait_for(lambda: ranks[1].count > 5, lambda: ranks[1].log)
    ranks[0].signal_all(signal.SIGSTOP)
    assert ranks[1].wait() == 1
    assert "ConsumerLostError: training rank 0, which keeps the leases at 127.0.0.1:" in ranks[1].log
    assert "it has not answered for 6 s" in ranks[1].log


def test_a_rank_that_never_begins_is_named(service: Service) -> None:
    _, port = service.serve("Numbers", 100)
    told = {"order": "first_come", "leases": f"127.0.0.1:{free_port()}", "world": 3, "patience": 5.0}
    ranks = [service.take([port], rank=rank, **told) for rank in (0, 2)]
    assert [rank.wait() for rank in ranks] == [1, 1]
    assert "the training ranks [1] did not begin the epoch" in ranks[1].log


@pytest.mark.parametrize("after", [2, 3])
def test_a_job_that_stopped_anywhere_goes_on_with_what_no_rank_had_taken(service: Service, after: int) -> None:
    """With as many ranks each loads its own state, with another number all load the merged one."""
    _, port = service.serve("Numbers", 1000, batch_size=10, shuffle=True)
    first = [rank.finish() for rank in first_come(service, [port], 2, stop_at=17)]
    states = [taken.end["state"] for taken in first]
    place = f"127.0.0.1:{free_port()}"
    told = {"order": "first_come", "leases": place, "world": after}
    loaded = states if after == 2 else [merge_states(states)] * after
    second = [service.take([port], rank=rank, state=loaded[rank], **told) for rank in range(after)]
    taken = [*(item.samples for item in first), *(rank.finish().samples for rank in second)]
    assert sum(map(len, taken[:2])) == 340
    assert sorted(chain(*taken)) == list(range(1000))
