"""What failing hosts cost: Daly's interval against the exact best one and a simulation, published figures, the verb."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlc.__main__ import main
from dlc.advice.cost_model import DATA_HOSTS, EVERYWHERE, Machine, Workload
from dlc.advice.failures import (
    DAY,
    HOUR,
    Losses,
    Reliability,
    count_data_hosts,
    find_first_order_interval,
    find_interval,
    find_losses,
    format_time,
    split_time,
)
from dlc.core.errors import UsageError

ROOT = Path(__file__).parents[4]
# Failures for a thousand days of a node, and what their authors say of a job (docs/scale.md has the sources).
RSC_1 = 1000 * DAY / 6.5
GPUS_OF_A_HOST = 8
# Unexpected interruptions of Llama 3's training in 54 days on 2,048 hosts.
LLAMA_3 = 54 * DAY * 2048 / 419

reliabilities = st.builds(
    Reliability, st.integers(1, 4096), st.floats(1e7, 1e9), st.floats(1.0, 600.0), st.floats(1.0, 1200.0)
)


def train_share(reliability: Reliability, interval: float) -> float:
    """Return the useful share; 0 for an interval with which the job hardly trains."""
    try:
        return split_time(reliability, interval).useful
    except UsageError:
        return 0.0


def find_best_interval(reliability: Reliability) -> float:
    """Return the interval with the largest useful share, by thirds."""
    low, high = 1e-3, 5 * find_first_order_interval(reliability)
    for _ in range(80):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        if train_share(reliability, left) < train_share(reliability, right):
            low = left
        else:
            high = right
    return (low + high) / 2


def simulate(reliability: Reliability, interval: float, intervals: int, seed: int) -> Losses:
    """Return where the time of a job goes whose failures are drawn at random."""
    chance = random.Random(seed)
    saved = restarting = total = 0.0
    for _ in range(intervals):
        until = chance.expovariate(1 / reliability.job_mtbf)
        while until < interval + reliability.save:
            total += until
            until = chance.expovariate(1 / reliability.job_mtbf)
            while until < reliability.restart:
                total, restarting = total + until, restarting + until
                until = chance.expovariate(1 / reliability.job_mtbf)
            total, restarting = total + reliability.restart, restarting + reliability.restart
            # What is left until a failure is drawn anew: failures have no memory.
            until = chance.expovariate(1 / reliability.job_mtbf)
        total, saved = total + interval + reliability.save, saved + reliability.save
    useful = interval * intervals / total
    return Losses(interval, useful, saved / total, 1 - useful - (saved + restarting) / total, restarting / total)


@given(reliabilities)
def test_the_shares_are_all_of_the_time(reliability: Reliability) -> None:
    losses = find_losses(reliability)
    parts = (losses.useful, losses.saving, losses.repeating, losses.restarting)
    assert all(0 <= part <= 1 for part in parts)
    assert sum(parts) == pytest.approx(1, abs=1e-9)


@given(reliabilities)
def test_dalys_interval_trains_as_much_as_the_exact_best_one(reliability: Reliability) -> None:
    exact = split_time(reliability, find_best_interval(reliability)).useful
    assert find_losses(reliability).useful >= exact * (1 - 2e-3)


def test_if_failures_are_rare_daly_says_what_young_says() -> None:
    rare = Reliability(1, 1e9, 10.0, 60.0)
    assert find_interval(rare) == pytest.approx(find_first_order_interval(rare), rel=1e-3)
    assert find_first_order_interval(Reliability(8, 8 * 50 * 3600.0, 36.0, 1.0)) == pytest.approx(3600.0)


def test_a_save_that_takes_longer_than_two_failures_is_made_once_in_each_mean_time() -> None:
    assert find_interval(Reliability(10, 1000.0, 250.0, 1.0)) == 100.0


@pytest.mark.parametrize("hosts", [64, 2048, 16384])
def test_a_simulation_of_failures_gives_the_same_shares(hosts: int) -> None:
    reliability = Reliability(hosts, LLAMA_3, 60.0, 600.0)
    said = find_losses(reliability)
    seen = simulate(reliability, said.interval, 20000, seed=38)
    assert seen.useful == pytest.approx(said.useful, rel=0.01)
    assert seen.saving == pytest.approx(said.saving, rel=0.05)
    assert seen.repeating == pytest.approx(said.repeating, rel=0.05)
    assert seen.restarting == pytest.approx(said.restarting, rel=0.05)


@pytest.mark.parametrize(
    ("host_mtbf", "gpus", "hours"), [(RSC_1, 16384, 1.8), (RSC_1, 131072, 0.23), (LLAMA_3, 16384, 3.1)]
)
def test_a_job_fails_as_often_as_those_who_had_it_say(host_mtbf: float, gpus: int, hours: float) -> None:
    found = Reliability(gpus // GPUS_OF_A_HOST, host_mtbf, 60.0, 600.0).job_mtbf / HOUR
    assert found == pytest.approx(hours, rel=0.03)


def test_more_hosts_lose_more_and_save_more_often() -> None:
    found = [find_losses(Reliability(hosts, LLAMA_3, 60.0, 600.0)) for hosts in (8, 64, 512, 1000)]
    assert [each.lost for each in found] == sorted(each.lost for each in found)
    assert [each.interval for each in found] == sorted((each.interval for each in found), reverse=True)


def test_a_job_that_hardly_trains_is_refused_with_its_numbers() -> None:
    with pytest.raises(UsageError, match=r"one of 1000 hosts fails each 3\.6 s, but a save and a restart take 11 min"):
        find_losses(Reliability(1000, 3600.0, 60.0, 600.0))
    with pytest.raises(UsageError, match="less than 1%"):
        split_time(Reliability(1, 1e4, 1.0, 1.0), 1e300)


def test_each_training_host_needs_its_part_of_the_data_hosts() -> None:
    training = Machine("gpus", 96, 8, "A", 1.0, 100.0, False, None)
    data = Machine("cpus", 72, 0, "", 1.0, 25.0, False, None)
    # Eight batches in 86 ms of 2.304 CPU seconds each are 214 vCPUs; 96 are there, 118 of data hosts with 72.
    assert count_data_hosts(64, training, data, Workload(0.086, 2.304, 2.304, 0.0, EVERYWHERE)) == (
        pytest.approx(118.3 / 72, rel=1e-3),
        106,
    )
    alone = Workload(0.086, 2.304, 2.304, 0.0, DATA_HOSTS, 36)
    assert count_data_hosts(64, training, data, alone) == (pytest.approx(214.3 / 36, rel=1e-3), 382)
    assert count_data_hosts(64, training, data, Workload(1.0, 0.1, 0.1)) == (0.0, 0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.31, "0.3 s"), (59, "59 s"), (61, "1.0 min"), (725, "12 min"), (3599, "1 h 00 min"), (7500, "2 h 05 min"),
     (4.1 * DAY, "4.1 days")],
)  # fmt: skip
def test_a_time_has_two_units_at_most(seconds: float, text: str) -> None:
    assert format_time(seconds) == text


@pytest.fixture
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.usefixtures("_in_the_repository")
def test_the_verb_says_when_to_save_what_is_lost_and_what_it_assumes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--hosts", "64", "--mtbf", "6335"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("failures: one of 64 hosts fails each 4.1 days\nsave: after each 1 h 48 min of training")
    assert "USD" not in text
    assert "a save keeps the training waiting for 60 s (--save-seconds: measured)" in text
    assert main(["advise", "--hosts", "64", "--mtbf", "6335", "--save-seconds", "5", "--restart-seconds", "60"]) == 0
    text = capsys.readouterr().out
    assert "measured" not in text


@pytest.mark.usefixtures("_in_the_repository")
def test_the_verb_counts_the_data_hosts_of_all_training_hosts_and_their_price(
    capsys: pytest.CaptureFixture[str],
) -> None:
    measured = ["--step-ms", "86", "--cpu-seconds", "2.304"]
    assert main(["advise", "--mtbf", "6335", "--on", "64*p4d.24xlarge", *measured]) == 0
    text = capsys.readouterr().out
    assert text.startswith("of one of the 64 training hosts:")
    assert "data hosts: 1.64 x c5.18xlarge for each training host, 106 for all" in text
    assert main(["advise", "--mtbf", "6335", "--hosts", "64", "--on", "p4d.24xlarge", *measured, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["failures"]
    assert (found["data"], found["data_hosts"]) == ("c5.18xlarge", 106)
    lost = 1 - found["useful"]
    assert found["lost_usd_per_day"] == pytest.approx(lost * 24 * (64 * 37.688 + 106 * 3.672))


@pytest.mark.usefixtures("_in_the_repository")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--hosts", "64"], "--hosts: expected --mtbf HOURS too"),
        (["--save-seconds", "6"], "--save-seconds: expected --mtbf HOURS too"),
        (["--mtbf", "6335"], "--mtbf: expected --hosts N too, or --on N*TYPE"),
        (["--mtbf", "6335", "--on", "p4d.24xlarge"], "--mtbf: expected --hosts N too"),
        (["--mtbf", "0", "--hosts", "2"], "expected a number above 0"),
        (["--mtbf", "6335", "--hosts", "0"], "expected a whole number above 0"),
        (["--mtbf", "6335", "--hosts", "1.5"], "expected a whole number above 0"),
        (["--mtbf", "6335", "--hosts", "1000000"], "expected at most 999999"),
        (["--mtbf", "nan", "--hosts", "2"], "expected a number above 0"),
        (["--mtbf", "1e-9", "--hosts", "2"], "the job would train less than 1% of its time"),
        (["--mtbf", "9", "--hosts", "2", "--on", "p4d.24xlarg"], "did you mean 'p4d.24xlarge'?"),
        (["--mtbf", "9", "--hosts", "2", "--step-ms", "5"], "expected --cpu-seconds, or a REPORT"),
        (["--mtbf", "9", "--hosts", "2", "--svg", "a.svg"], "--svg: expected steps to draw"),
        (
            ["--mtbf", "999", "--hosts", "2", "--on", "3*p4d.24xlarge", "--step-ms", "5", "--cpu-seconds", "1"],
            "--hosts 2: expected the 3 hosts of --on 3*p4d.24xlarge",
        ),
    ],
)
def test_what_cannot_be_used_is_one_message(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", *words]) == UsageError.exit_code
    out, err = capsys.readouterr()
    assert (out, said in err) == ("", True), err
