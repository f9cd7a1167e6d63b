"""advice: the source documents' inputs give the source documents' figures, to the digit that they print."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc.advice.cost_model import (
    DATA_HOSTS,
    MEASURED,
    Catalogue,
    Estimate,
    Workload,
    compute_saving,
    compute_speedup,
    estimate_step,
    find_cpu_limit,
    find_step_limit,
    make_catalogue,
    parse_cluster,
)
from dlc.advice.decide import BIGGER, COST, MIXED, SAME, SPEED, Advice, make_advice
from dlc.buildspec.instances import read_instances
from dlc.core.checkout import find_root, read_tree


@pytest.fixture(scope="module")
def machines() -> Catalogue:
    return make_catalogue(read_instances(read_tree(find_root(Path(__file__).parent))), {})


def measured(machines: Catalogue, cluster: str, milliseconds: float) -> Estimate:
    return Estimate(parse_cluster(machines, cluster, "test"), milliseconds / 1000, MEASURED, None)


def advice(machines: Catalogue, on: str, step: float, cpu: float, data: list[str], **options: object) -> Advice:
    job = Workload(step, cpu, cpu)
    goal = str(options.get("goal", COST))
    return make_advice(
        parse_cluster(machines, on, "test"), job, machines, [machines[name] for name in data], goal, None
    )


@pytest.mark.parametrize(
    ("before", "after", "prices", "times", "saved"),
    [
        (("p4d.24xlarge", 192), ("p4d.24xlarge+2*c5.18xlarge", 86), ("37.688", "45.032"), "2.2x", "46%"),
        (("p3.2xlarge", 1193), ("p3.2xlarge+c5.9xlarge", 184), ("3.825", "5.661"), "6.5x", "77%"),
    ],
    ids=["tensorflow", "pytorch"],
)
def test_measured_step_times_give_the_prices_and_gains_of_both_tables(
    machines: Catalogue,
    before: tuple[str, int],
    after: tuple[str, int],
    prices: tuple[str, str],
    times: str,
    saved: str,
) -> None:
    first, second = measured(machines, *before), measured(machines, *after)
    assert (f"{first.cluster.price:.3f}", f"{second.cluster.price:.3f}") == prices
    assert f"{compute_speedup(first, second):.1f}x" == times
    assert f"{compute_saving(first, second):.0%}" == saved


def test_the_tensorflow_table_follows_from_one_step_with_data_ready_and_the_cpu_seconds_of_a_batch(
    machines: Catalogue,
) -> None:
    """All 96 vCPUs work 192 ms for the 8 batches of a step: 2.304 s for a batch; with the data ready it takes 86 ms."""
    found = advice(machines, "p4d.24xlarge", 0.086, 96 * 0.192 / 8, ["c5.9xlarge", "c5.18xlarge"])
    assert found.now.seconds == pytest.approx(0.192)
    assert (found.chosen.kind, str(found.chosen.result.cluster)) == (MIXED, "p4d.24xlarge + 2 x c5.18xlarge")
    assert found.chosen.result.seconds == pytest.approx(0.086)
    assert f"{compute_speedup(found.now, found.chosen.result):.1f}x" == "2.2x"
    assert f"{compute_saving(found.now, found.chosen.result):.0%}" == "46%"


def test_the_pytorch_table_follows_from_the_cpu_seconds_of_a_batch_on_each_kind_of_host(machines: Catalogue) -> None:
    """8 workers on the GPU's host take 1193 ms for a batch; 32 on the data host, which then prepare all, 184 ms."""
    job = Workload(0.184, 8 * 1.193, 32 * 0.184, where=DATA_HOSTS, data_workers=32)
    before = estimate_step(parse_cluster(machines, "p3.2xlarge", "test"), job)
    after = estimate_step(parse_cluster(machines, "p3.2xlarge+c5.9xlarge", "test"), job)
    assert (before.seconds, after.seconds) == (pytest.approx(1.193), pytest.approx(0.184))
    found = make_advice(before.cluster, job, machines, [machines["c5.9xlarge"]], COST, None)
    assert str(found.chosen.result.cluster) == "p3.2xlarge + c5.9xlarge"
    assert f"{compute_speedup(before, after):.1f}x {compute_saving(before, after):.0%}" == "6.5x 77%"


def test_the_vcpu_arithmetic_is_the_documents(machines: Catalogue) -> None:
    """12 vCPUs for each GPU where 20 are needed: 60% GPU use; two machines of 72 vCPUs make it 30."""
    found = advice(machines, "p4d.24xlarge", 0.1, 2.0, ["c5.18xlarge"])
    assert found.job.vcpus_per_gpu == pytest.approx(20)
    assert found.now.cluster.vcpus_per_gpu == 12
    assert found.now.use == pytest.approx(0.60)
    assert parse_cluster(machines, "ml.p4d.24xlarge + 2 x ml.c5.18xlarge", "test").vcpus_per_gpu == 30
    assert estimate_step(parse_cluster(machines, "p4d.24xlarge+2*c5.18xlarge", "test"), found.job).use == pytest.approx(
        1
    )


@pytest.mark.parametrize(
    ("on", "to", "vcpus"), [("g5.8xlarge", "g5.16xlarge", (32, 64)), ("g5.12xlarge", "g5.24xlarge", (48, 96))]
)
def test_where_the_family_has_a_bigger_machine_for_as_many_gpus_it_is_tried_first(
    machines: Catalogue, on: str, to: str, vcpus: tuple[int, int]
) -> None:
    gpus = machines[on].gpus
    found = advice(machines, on, 0.1, 0.1 * 1.5 * vcpus[0] / gpus, ["c5.18xlarge"])
    assert (found.chosen.kind, found.chosen.result.cluster.training.name) == (BIGGER, to)
    assert (machines[on].vcpus, machines[to].vcpus) == vcpus


@pytest.mark.parametrize("on", ["trn1.32xlarge", "p4d.24xlarge", "g5.48xlarge"])
def test_where_the_family_ends_the_choice_is_a_heterogeneous_cluster(machines: Catalogue, on: str) -> None:
    found = advice(machines, on, 0.1, 0.1 * 1.5 * machines[on].vcpus / machines[on].gpus, ["c5.18xlarge"])
    assert BIGGER not in {choice.kind for choice in found.choices}
    assert found.chosen.kind == MIXED


def test_enough_vcpus_mean_that_nothing_is_changed(machines: Catalogue) -> None:
    found = advice(machines, "p4d.24xlarge", 0.1, 1.19, ["c5.18xlarge"])
    assert (found.chosen.kind, found.why.partition(":")[0]) == (SAME, "not CPU-bound")
    assert found.now.use == 1


def test_break_even_is_where_a_step_of_both_costs_the_same(machines: Catalogue) -> None:
    first = measured(machines, "p4d.24xlarge", 192)
    second = measured(machines, "p4d.24xlarge+2*c5.18xlarge", 86)
    limit = find_step_limit(first, second)
    assert limit is not None
    assert measured(machines, "p4d.24xlarge+2*c5.18xlarge", limit * 1000).cost == pytest.approx(first.cost)
    job = Workload(0.086, 2.304, 2.304)
    seconds = find_cpu_limit(first.cluster, second.cluster, job)
    assert seconds is not None
    there = Workload(0.086, seconds, seconds)
    assert estimate_step(first.cluster, there).cost == pytest.approx(estimate_step(second.cluster, there).cost)


def test_data_hosts_that_cost_more_than_they_save_are_not_advised(machines: Catalogue) -> None:
    """A c5.9xlarge costs half of a p3.2xlarge: for a GPU that waits a tenth of its time it is faster and dearer."""
    for goal, kind in ((COST, SAME), (SPEED, MIXED)):
        assert advice(machines, "p3.2xlarge", 0.1, 0.88, ["c5.9xlarge"], goal=goal).chosen.kind == kind


def test_the_number_of_data_hosts_is_the_fewest_that_end_the_wait_or_the_cheapest(machines: Catalogue) -> None:
    """With c5.9xlarge, three data hosts leave a step at 90 ms; a fourth ends the wait and costs less for each step."""
    found = advice(machines, "p4d.24xlarge", 0.086, 2.304, ["c5.9xlarge"])
    assert found.chosen.result.cluster.data_hosts == 4
    assert [f"{each.seconds * 1000:.0f}" for each in found.curve] == ["192", "140", "110", "90", "86", "86"]


def test_a_slow_network_bounds_the_step_of_a_heterogeneous_cluster(machines: Catalogue) -> None:
    """36 vCPUs send 1 GB for each step over 10 Gbit/s, the slower end: 0.8 s."""
    job = Workload(0.1, 2.0, 2.0, batch_bytes=1e9, where=DATA_HOSTS)
    found = estimate_step(parse_cluster(machines, "p3.2xlarge+c5.9xlarge", "test"), job)
    assert (found.bound, found.seconds) == ("network", pytest.approx(0.8))


def test_preprocessing_on_the_gpu_is_chosen_below_its_break_even_and_not_above(machines: Catalogue) -> None:
    now, job = parse_cluster(machines, "p4d.24xlarge", "test"), Workload(0.086, 2.304, 2.304)
    limit = make_advice(now, job, machines, [machines["c5.18xlarge"]], COST, None).gpu_limit
    assert limit == pytest.approx(0.086 * 45.032 / 37.688 - 0.086)
    for extra, kind in ((limit * 0.5, "preprocessing on the GPU"), (limit * 2, MIXED)):
        found = make_advice(now, job, machines, [machines["c5.18xlarge"]], COST, extra)
        assert found.chosen.kind == kind
