"""membership: when a group of hosts has ended, and how."""

from __future__ import annotations

import json

import pytest

from launch.base.errors import FAILED, HUNG, STOPPED, UNAVAILABLE, Failure
from launch.coordination import rendezvous
from launch.coordination.member import Member
from launch.coordination.membership import (
    LONGEST_TEXT,
    GroupEnd,
    GroupRules,
    MemberConfig,
    Membership,
    end_of,
    list_hosts,
)

HOSTS = ("data-1", "dnn-1", "dnn-2")
BROKEN = GroupEnd(False, 7, "dnn-2", "worker rank 1 on dnn-2 exited with code 7")


def joined(**rules: int) -> Membership:
    """A group that has met, and whose processes run."""
    membership = Membership(GroupRules(HOSTS, HOSTS[1:], **rules))
    for host in HOSTS:
        assert membership.join(host, f"launcher on {host}", {}) == ""
        membership.note_ready(host, 0)
    return membership


def test_it_ends_well_when_every_member_is_done_whatever_the_others_do() -> None:
    membership = joined()
    membership.note_done("dnn-1", 0)
    membership.note_done("data-1", 0)
    assert membership.end is None
    membership.note_done("dnn-2", 0)
    assert membership.end == GroupEnd(True)


def test_members_that_serve_are_not_waited_for_whenever_they_say_it() -> None:
    early, late = joined(), joined()
    early.note_serving("dnn-1", 0)
    early.note_done("dnn-2", 0)
    late.note_done("dnn-2", 0)
    assert late.end is None
    late.note_serving("dnn-1", 0)
    assert early.end == late.end == GroupEnd(True)


def test_where_every_member_serves_all_are_waited_for() -> None:
    membership = joined()
    for host in HOSTS[1:]:
        membership.note_serving(host, 0)
    membership.note_done("dnn-2", 0)
    assert membership.end is None
    membership.note_done("dnn-1", 0)
    assert membership.end == GroupEnd(True)


def test_a_host_that_serves_fails_the_job_all_the_same_and_says_again_that_it_serves_after_a_restart() -> None:
    membership = joined(restarts=1)
    membership.note_serving("dnn-1", 0)
    membership.note_failure("dnn-1", BROKEN, 0)
    assert (membership.end, membership.generation) == (None, 1)
    membership.note_serving("dnn-1", 0)  # an old word
    for host in HOSTS:
        membership.note_ready(host, 1)
    membership.note_done("dnn-2", 1)
    assert membership.end is None
    membership.note_lost("dnn-1", "closed")
    assert membership.end == GroupEnd(False, UNAVAILABLE, "dnn-1", "dnn-1 vanished: closed")


@pytest.mark.parametrize("host", HOSTS)
def test_the_failure_of_any_host_ends_it(host: str) -> None:
    membership = joined()
    membership.note_failure(host, BROKEN._replace(host=host), 0)
    assert membership.end == BROKEN._replace(host=host)


def test_the_first_failure_stays() -> None:
    membership = joined()
    membership.note_failure("dnn-2", BROKEN, 0)
    membership.note_failure("dnn-1", GroupEnd(False, 1, "dnn-1", "connection reset"), 0)
    membership.note_lost("data-1", "closed")
    assert membership.end == BROKEN


def test_a_host_that_vanishes_fails_the_job_and_is_named() -> None:
    membership = joined(restarts=3)
    membership.note_lost("dnn-2", "nothing heard for 60 s")
    assert membership.end == GroupEnd(False, UNAVAILABLE, "dnn-2", "dnn-2 vanished: nothing heard for 60 s")


def test_a_host_that_is_done_may_leave() -> None:
    membership = joined()
    membership.note_done("data-1", 0)
    membership.note_lost("data-1", "closed")
    assert membership.end is None


def test_strangers_and_doubles_are_refused_with_the_reason() -> None:
    membership = Membership(GroupRules(HOSTS, HOSTS))
    assert "none of this job's hosts" in membership.join("algo-9", "a", {})
    assert membership.join("dnn-1", "a", {}) == ""
    assert "two hosts use one name" in membership.join("dnn-1", "b", {})
    assert membership.missing == ["data-1", "dnn-2"]


def test_a_launcher_whose_connection_broke_is_welcome_again() -> None:
    membership = joined()
    assert membership.join("dnn-1", "launcher on dnn-1", {}) == ""


def test_a_host_that_comes_only_to_say_why_it_fails_completes_no_meeting() -> None:
    membership = Membership(GroupRules(HOSTS, HOSTS))
    for host in HOSTS[:2]:
        membership.join(host, host, {})
    assert membership.join("dnn-2", "dnn-2", None) == ""
    assert not membership.has_met
    membership.note_failure("dnn-2", BROKEN, 0)
    assert membership.end == BROKEN


def test_nobody_starts_before_every_host_is_ready() -> None:
    membership = Membership(GroupRules(HOSTS, HOSTS))
    for host in HOSTS:
        membership.join(host, host, {})
    for host in HOSTS:
        assert not membership.all_ready
        assert host in membership.missing
        membership.note_ready(host, 0)
    assert membership.all_ready


# --- a stop


def test_after_a_stop_every_member_has_its_time_and_nobody_succeeds() -> None:
    membership = joined()
    membership.note_stopping("dnn-2")
    assert (membership.stopped_host, membership.end) == ("dnn-2", None)
    membership.note_done("dnn-2", 0)
    assert membership.end is None
    membership.note_done("dnn-1", 0)
    assert membership.end == GroupEnd(True, kind=STOPPED)


@pytest.mark.parametrize("how", ["failed", "lost"])
def test_a_failure_after_a_stop_hurries_no_other_host(how: str) -> None:
    membership = joined(restarts=3)
    membership.note_stopping("dnn-1")
    if how == "failed":
        membership.note_failure("dnn-1", GroupEnd(False, 143, "dnn-1", "stopped by SIGTERM", kind=STOPPED), 0)
    else:
        membership.note_lost("dnn-1", "closed")
    assert membership.end is None
    membership.note_done("dnn-2", 0)
    assert membership.end is not None
    assert (membership.end.ok, membership.end.host, membership.end.kind) == (False, "dnn-1", STOPPED)


# --- restarts in place


def test_a_failure_begins_a_new_generation_while_restarts_are_left() -> None:
    membership = joined(restarts=1)
    membership.note_failure("dnn-2", BROKEN, 0)
    assert (membership.end, membership.generation, membership.all_ready) == (None, 1, False)
    assert membership.restart_cause() == BROKEN
    for host in HOSTS:
        membership.note_ready(host, 1)
    membership.note_failure("dnn-2", BROKEN, 1)
    assert membership.end == BROKEN


def test_what_follows_from_a_failure_is_no_news_of_the_next_generation() -> None:
    membership = joined(restarts=2)
    membership.note_failure("dnn-2", BROKEN, 0)
    membership.note_failure("dnn-1", GroupEnd(False, 1, "dnn-1", "connection reset by peer"), 0)
    membership.note_done("data-1", 0)
    assert (membership.generation, membership.end, membership.done) == (1, None, set())


def test_what_fails_before_the_processes_run_fails_again_and_is_not_repeated() -> None:
    membership = Membership(GroupRules(HOSTS, HOSTS, restarts=3))
    for host in HOSTS:
        membership.join(host, host, {})
    membership.note_failure("dnn-2", BROKEN, 0)
    assert membership.end == BROKEN


def test_a_hang_is_not_repeated() -> None:
    membership = joined(restarts=3)
    membership.note_failure("dnn-2", BROKEN._replace(kind=HUNG), 0)
    assert membership.end is not None


# --- elastic


def elastic() -> Membership:
    membership = Membership(GroupRules(HOSTS, HOSTS, least=2))
    for host in HOSTS[:2]:
        membership.join(host, host, {})
        membership.note_ready(host, 0)
    return membership


def test_an_elastic_job_begins_with_the_least_hosts_and_takes_in_late_ones() -> None:
    membership = elastic()
    assert membership.has_met
    assert membership.all_ready
    assert membership.join("dnn-2", "late", {}) == ""


@pytest.mark.parametrize("how", ["vanishes", "is stopped", "is started again"])
def test_an_elastic_job_goes_on_without_a_host_that(how: str) -> None:
    membership = elastic()
    if how == "vanishes":
        membership.note_lost("dnn-1", "closed")
        assert membership.losses.news == ["dnn-1 vanished: closed; the elastic job goes on without it"]
    elif how == "is stopped":
        membership.note_stopping("dnn-1")
        membership.note_failure("dnn-1", GroupEnd(False, 143, "dnn-1", "stopped by SIGTERM", kind=STOPPED), 0)
    assert membership.join("dnn-1", "another launcher", {}) == ""
    assert (membership.end, membership.stopped_host) == (None, "")


def test_an_elastic_job_ends_with_its_leader() -> None:
    membership = elastic()
    membership.note_lost("data-1", "closed")
    assert membership.end is not None
    assert not membership.end.ok


def test_an_elastic_job_ends_well_when_all_that_are_here_are_done() -> None:
    membership = elastic()
    membership.note_done("data-1", 0)
    assert membership.end is None
    membership.note_done("dnn-1", 0)
    assert membership.end == GroupEnd(True)


# --- how it is told


@pytest.mark.parametrize("kind", [FAILED, STOPPED, HUNG])
def test_an_end_survives_the_way_through_json(kind: str) -> None:
    end = end_of(Failure("cause", host="dnn-2", exit_code=3, last_lines=("a", "b")), kind)
    assert GroupEnd.of_message(json.loads(json.dumps(end.as_message()))) == end
    assert (end.exit_code, end.host, end.kind, end.last_lines) == (3, "dnn-2", kind, ("a", "b"))


def test_a_long_report_is_cut_to_its_last_lines() -> None:
    end = end_of(Failure("c" * 9999, last_lines=("x" * 9999, "the last")), FAILED)
    assert len(end.cause) == LONGEST_TEXT
    assert end.last_lines[-1] == "the last"
    assert sum(map(len, end.last_lines)) < LONGEST_TEXT


def test_a_thousand_hosts_are_named_in_one_line() -> None:
    assert list_hosts(["a", "b"]) == "a, b"
    assert list_hosts([f"algo-{n}" for n in range(1000)]).endswith(" and 980 more")


@pytest.mark.parametrize(("missing", "words"), [(["a", "b"], "b"), (["a"], "the other hosts"), ([], "the other hosts")])
def test_no_host_says_that_it_waits_for_itself(missing: list[str], words: str) -> None:
    """The state that a host knows may be older than its own word."""
    group = Member(MemberConfig("a", GroupRules(("a", "b"), ("a", "b")), b"key", 1, 60.0))
    group.missing, group.missing_count = missing, len(missing)
    assert rendezvous._list_missing(group) == words
    assert missing or rendezvous._whom_we_wait_for(group).startswith("waiting for the other hosts: ")


def test_a_launcher_that_comes_back_begins_a_new_generation_if_restarts_are_left() -> None:
    for restarts, code in ((1, 0), (0, UNAVAILABLE)):
        group = Membership(GroupRules(("a", "b"), ("a", "b"), restarts=restarts))
        for host in ("a", "b"):
            assert group.join(host, "first", {}) == ""
            group.note_ready(host, 0)
        assert "two hosts use one name" in group.join("b", "second", {})
        assert group.join("b", "second", {}, was_lost=True) == ""
        assert (group.end.exit_code if group.end else 0, group.generation) == (code, restarts)


def test_a_launcher_that_comes_back_before_the_hosts_have_met_is_welcome() -> None:
    group = Membership(GroupRules(("a", "b", "c"), ("a", "b", "c"), restarts=1))
    for host in ("a", "b"):
        group.join(host, "first", {})
    assert group.join("b", "second", {}, was_lost=True) == ""
    assert (group.end, group.generation, group.missing) == (None, 0, ["c"])
