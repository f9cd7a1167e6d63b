"""membership: when a group of hosts has ended, and how."""

from __future__ import annotations

import json

import pytest

from launch.base.errors import FAILED, HUNG, STOPPED, UNAVAILABLE, Failure
from launch.coordination.membership import LONGEST_TEXT, End, Ledger, Rules, end_of, named

HOSTS = ("data-1", "dnn-1", "dnn-2")
BROKEN = End(False, 7, "dnn-2", "worker rank 1 on dnn-2 exited with code 7")


def joined(**rules: int) -> Ledger:
    """A group that has met, and whose processes run."""
    ledger = Ledger(Rules(HOSTS, HOSTS[1:], **rules))
    for host in HOSTS:
        assert ledger.join(host, f"launcher on {host}", {}) == ""
        ledger.is_ready(host, 0)
    return ledger


def test_it_ends_well_when_every_member_is_done_whatever_the_others_do() -> None:
    ledger = joined()
    ledger.finished("dnn-1", 0)
    ledger.finished("data-1", 0)
    assert ledger.end is None
    ledger.finished("dnn-2", 0)
    assert ledger.end == End(True)


def test_members_that_serve_are_not_waited_for_whenever_they_say_it() -> None:
    early, late = joined(), joined()
    early.serves("dnn-1", 0)
    early.finished("dnn-2", 0)
    late.finished("dnn-2", 0)
    assert late.end is None
    late.serves("dnn-1", 0)
    assert early.end == late.end == End(True)


def test_where_every_member_serves_all_are_waited_for() -> None:
    ledger = joined()
    for host in HOSTS[1:]:
        ledger.serves(host, 0)
    ledger.finished("dnn-2", 0)
    assert ledger.end is None
    ledger.finished("dnn-1", 0)
    assert ledger.end == End(True)


def test_a_host_that_serves_fails_the_job_all_the_same_and_says_again_that_it_serves_after_a_restart() -> None:
    ledger = joined(restarts=1)
    ledger.serves("dnn-1", 0)
    ledger.failed("dnn-1", BROKEN, 0)
    assert (ledger.end, ledger.generation) == (None, 1)
    ledger.serves("dnn-1", 0)  # an old word
    for host in HOSTS:
        ledger.is_ready(host, 1)
    ledger.finished("dnn-2", 1)
    assert ledger.end is None
    ledger.lost("dnn-1", "closed")
    assert ledger.end == End(False, UNAVAILABLE, "dnn-1", "dnn-1 vanished: closed")


@pytest.mark.parametrize("host", HOSTS)
def test_the_failure_of_any_host_ends_it(host: str) -> None:
    ledger = joined()
    ledger.failed(host, BROKEN._replace(host=host), 0)
    assert ledger.end == BROKEN._replace(host=host)


def test_the_first_failure_stays() -> None:
    ledger = joined()
    ledger.failed("dnn-2", BROKEN, 0)
    ledger.failed("dnn-1", End(False, 1, "dnn-1", "connection reset"), 0)
    ledger.lost("data-1", "closed")
    assert ledger.end == BROKEN


def test_a_host_that_vanishes_fails_the_job_and_is_named() -> None:
    ledger = joined(restarts=3)
    ledger.lost("dnn-2", "nothing heard for 60 s")
    assert ledger.end == End(False, UNAVAILABLE, "dnn-2", "dnn-2 vanished: nothing heard for 60 s")


def test_a_host_that_is_done_may_leave() -> None:
    ledger = joined()
    ledger.finished("data-1", 0)
    ledger.lost("data-1", "closed")
    assert ledger.end is None


def test_strangers_and_doubles_are_refused_with_the_reason() -> None:
    ledger = Ledger(Rules(HOSTS, HOSTS))
    assert "none of this job's hosts" in ledger.join("algo-9", "a", {})
    assert ledger.join("dnn-1", "a", {}) == ""
    assert "two hosts use one name" in ledger.join("dnn-1", "b", {})
    assert ledger.missing == ["data-1", "dnn-2"]


def test_a_launcher_whose_connection_broke_is_welcome_again() -> None:
    ledger = joined()
    assert ledger.join("dnn-1", "launcher on dnn-1", {}) == ""


def test_a_host_that_comes_only_to_say_why_it_fails_completes_no_meeting() -> None:
    ledger = Ledger(Rules(HOSTS, HOSTS))
    for host in HOSTS[:2]:
        ledger.join(host, host, {})
    assert ledger.join("dnn-2", "dnn-2", None) == ""
    assert not ledger.has_met
    ledger.failed("dnn-2", BROKEN, 0)
    assert ledger.end == BROKEN


def test_nobody_starts_before_every_host_is_ready() -> None:
    ledger = Ledger(Rules(HOSTS, HOSTS))
    for host in HOSTS:
        ledger.join(host, host, {})
    for host in HOSTS:
        assert not ledger.all_ready
        assert host in ledger.missing
        ledger.is_ready(host, 0)
    assert ledger.all_ready


# --- a stop


def test_after_a_stop_every_member_has_its_time_and_nobody_succeeds() -> None:
    ledger = joined()
    ledger.stopping("dnn-2")
    assert (ledger.stopped_host, ledger.end) == ("dnn-2", None)
    ledger.finished("dnn-2", 0)
    assert ledger.end is None
    ledger.finished("dnn-1", 0)
    assert ledger.end == End(True, kind=STOPPED)


@pytest.mark.parametrize("how", ["failed", "lost"])
def test_a_failure_after_a_stop_hurries_no_other_host(how: str) -> None:
    ledger = joined(restarts=3)
    ledger.stopping("dnn-1")
    if how == "failed":
        ledger.failed("dnn-1", End(False, 143, "dnn-1", "stopped by SIGTERM", kind=STOPPED), 0)
    else:
        ledger.lost("dnn-1", "closed")
    assert ledger.end is None
    ledger.finished("dnn-2", 0)
    assert ledger.end is not None
    assert (ledger.end.ok, ledger.end.host, ledger.end.kind) == (False, "dnn-1", STOPPED)


# --- restarts in place


def test_a_failure_begins_a_new_generation_while_restarts_are_left() -> None:
    ledger = joined(restarts=1)
    ledger.failed("dnn-2", BROKEN, 0)
    assert (ledger.end, ledger.generation, ledger.all_ready) == (None, 1, False)
    assert ledger.restart_cause() == BROKEN
    for host in HOSTS:
        ledger.is_ready(host, 1)
    ledger.failed("dnn-2", BROKEN, 1)
    assert ledger.end == BROKEN


def test_what_follows_from_a_failure_is_no_news_of_the_next_generation() -> None:
    ledger = joined(restarts=2)
    ledger.failed("dnn-2", BROKEN, 0)
    ledger.failed("dnn-1", End(False, 1, "dnn-1", "connection reset by peer"), 0)
    ledger.finished("data-1", 0)
    assert (ledger.generation, ledger.end, ledger.done) == (1, None, set())


def test_what_fails_before_the_processes_run_fails_again_and_is_not_repeated() -> None:
    ledger = Ledger(Rules(HOSTS, HOSTS, restarts=3))
    for host in HOSTS:
        ledger.join(host, host, {})
    ledger.failed("dnn-2", BROKEN, 0)
    assert ledger.end == BROKEN


def test_a_hang_is_not_repeated() -> None:
    ledger = joined(restarts=3)
    ledger.failed("dnn-2", BROKEN._replace(kind=HUNG), 0)
    assert ledger.end is not None


# --- elastic


def elastic() -> Ledger:
    ledger = Ledger(Rules(HOSTS, HOSTS, least=2))
    for host in HOSTS[:2]:
        ledger.join(host, host, {})
        ledger.is_ready(host, 0)
    return ledger


def test_an_elastic_job_begins_with_the_least_hosts_and_takes_in_late_ones() -> None:
    ledger = elastic()
    assert ledger.has_met
    assert ledger.all_ready
    assert ledger.join("dnn-2", "late", {}) == ""


@pytest.mark.parametrize("how", ["vanishes", "is stopped", "is started again"])
def test_an_elastic_job_goes_on_without_a_host_that(how: str) -> None:
    ledger = elastic()
    if how == "vanishes":
        ledger.lost("dnn-1", "closed")
    elif how == "is stopped":
        ledger.stopping("dnn-1")
        ledger.failed("dnn-1", End(False, 143, "dnn-1", "stopped by SIGTERM", kind=STOPPED), 0)
    assert ledger.join("dnn-1", "another launcher", {}) == ""
    assert (ledger.end, ledger.stopped_host) == (None, "")


def test_an_elastic_job_ends_with_its_leader() -> None:
    ledger = elastic()
    ledger.lost("data-1", "closed")
    assert ledger.end is not None
    assert not ledger.end.ok


def test_an_elastic_job_ends_well_when_all_that_are_here_are_done() -> None:
    ledger = elastic()
    ledger.finished("data-1", 0)
    assert ledger.end is None
    ledger.finished("dnn-1", 0)
    assert ledger.end == End(True)


# --- how it is told


@pytest.mark.parametrize("kind", [FAILED, STOPPED, HUNG])
def test_an_end_survives_the_way_through_json(kind: str) -> None:
    end = end_of(Failure("cause", host="dnn-2", exit_code=3, last_lines=("a", "b")), kind)
    assert End.of_message(json.loads(json.dumps(end.as_message()))) == end
    assert (end.exit_code, end.host, end.kind, end.last_lines) == (3, "dnn-2", kind, ("a", "b"))


def test_a_long_report_is_cut_to_its_last_lines() -> None:
    end = end_of(Failure("c" * 9999, last_lines=("x" * 9999, "the last")), FAILED)
    assert len(end.cause) == LONGEST_TEXT
    assert end.last_lines[-1] == "the last"
    assert sum(map(len, end.last_lines)) < LONGEST_TEXT


def test_a_thousand_hosts_are_named_in_one_line() -> None:
    assert named(["a", "b"]) == "a, b"
    assert named([f"algo-{n}" for n in range(1000)]).endswith(" and 980 more")


# --- data hosts

DATA = ("data-1", "data-2", "data-3")
GONE = End(False, 137, "data-1", "worker rank 0 on data-1 was ended by SIGKILL")


def served(any_program: bool = False, **rules: int) -> Ledger:
    """A job of one training host and three data hosts, two of which say that others can take over."""
    hosts = ("dnn-1", *DATA)
    ledger = Ledger(Rules(hosts, hosts[:1], data_groups=(DATA,), any_data_program=any_program, **rules))
    for host in hosts:
        ledger.join(host, f"launcher on {host}", {})
        ledger.is_ready(host, 0)
    for host in DATA[:2]:
        ledger.losses.replaceable(host)
    return ledger


def test_a_data_host_that_can_be_replaced_is_lost_and_the_job_goes_on() -> None:
    ledger = served(restarts=3)
    ledger.failed("data-1", GONE, 0)
    ledger.failed("data-1", GONE, 0)  # said again after a break of its connection
    assert (ledger.end, ledger.generation, list(ledger.losses.gone)) == (None, 0, ["data-1"])
    assert len(ledger.losses.news) == 1
    ledger.finished("dnn-1", 0)
    assert ledger.end == End(True)


@pytest.mark.parametrize("any_program", [False, True])
def test_a_data_host_that_has_not_said_that_others_take_over_counts_unless_the_user_says_it(any_program: bool) -> None:
    ledger = served(any_program)
    ledger.failed("data-3", GONE._replace(host="data-3"), 0)
    assert (ledger.end is None) == any_program


def test_a_training_host_is_replaced_by_nobody() -> None:
    ledger = served(any_program=True)
    ledger.losses.replaceable("dnn-1")
    ledger.failed("dnn-1", BROKEN, 0)
    assert ledger.end == BROKEN


def test_the_last_data_hosts_failure_names_the_first_and_has_its_exit_code() -> None:
    ledger = served(any_program=True)
    ledger.failed("data-1", GONE, 0)
    ledger.lost("data-2", "closed")
    assert ledger.end is None
    ledger.failed("data-3", End(False, 9, "data-3", "no disk"), 0)
    assert ledger.end is not None
    assert (ledger.end.host, ledger.end.exit_code) == ("data-1", 137)
    assert ledger.end.cause == f"{GONE.cause}; no data host of its group is left, the last one: no disk"


def test_a_data_host_whose_part_is_over_takes_over_from_nobody() -> None:
    ledger = served()
    ledger.finished("data-2", 0)
    ledger.finished("data-3", 0)
    ledger.failed("data-1", GONE, 0)
    assert ledger.end == GONE


def test_a_data_host_that_fails_before_the_processes_run_fails_the_job() -> None:
    hosts = ("dnn-1", *DATA)
    ledger = Ledger(Rules(hosts, hosts[:1], data_groups=(DATA,), any_data_program=True))
    for host in hosts:
        ledger.join(host, host, {})
    ledger.failed("data-1", GONE, 0)
    assert ledger.end == GONE


def test_a_data_host_that_vanished_is_waited_for_by_nobody_and_serves_again_when_it_is_back() -> None:
    ledger = served(restarts=1)
    ledger.lost("data-1", "nothing heard for 60 s")
    ledger.failed("dnn-1", BROKEN, 0)
    for host in ("dnn-1", *DATA[1:]):
        ledger.is_ready(host, 1)
    assert (ledger.generation, ledger.all_ready) == (1, True)
    assert ledger.join("data-1", "launcher on data-1", {}) == ""
    assert (ledger.all_ready, ledger.losses.gone) == (False, {})


def test_a_data_host_whose_container_was_started_again_is_welcome_unless_it_is_the_only_one() -> None:
    ledger = served()
    assert ledger.join("data-1", "another launcher", {}) == ""
    assert (ledger.end, ledger.losses.gone) == (None, {})
    for host in DATA[1:]:
        ledger.finished(host, 0)
    assert "joined already" in ledger.join("data-1", "one more launcher", {})


def test_a_restart_of_all_counts_on_a_data_host_that_failed_again() -> None:
    ledger = served(restarts=1)
    ledger.failed("data-1", GONE, 0)
    ledger.failed("dnn-1", BROKEN, 0)
    assert (ledger.generation, ledger.losses.gone) == (1, {})
    assert "data-1" in ledger.missing
