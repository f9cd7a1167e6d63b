"""membership: what the failure of a data host is to the job, where others of its group can take over."""

from __future__ import annotations

import pytest

from launch.coordination.coordinator import Coordinator
from launch.coordination.membership import GroupEnd, GroupRules, Membership, unpack_json

BROKEN = GroupEnd(False, 7, "dnn-2", "worker rank 1 on dnn-2 exited with code 7")
DATA = ("data-1", "data-2", "data-3")
GONE = GroupEnd(False, 137, "data-1", "worker rank 0 on data-1 was ended by SIGKILL")


def served(any_program: bool = False, **rules: int) -> Membership:
    """A job of one training host and three data hosts, two of which say that others can take over."""
    hosts = ("dnn-1", *DATA)
    membership = Membership(GroupRules(hosts, hosts[:1], data_groups=(DATA,), any_data_program=any_program, **rules))
    for host in hosts:
        membership.join(host, f"launcher on {host}", {})
        membership.note_ready(host, 0)
    for host in DATA[:2]:
        membership.losses.note_replaceable(host)
    return membership


def test_a_data_host_that_can_be_replaced_is_lost_and_the_job_goes_on() -> None:
    membership = served(restarts=3)
    membership.note_failure("data-1", GONE, 0)
    membership.note_failure("data-1", GONE, 0)  # said again after a break of its connection
    assert (membership.end, membership.generation, list(membership.losses.gone)) == (None, 0, ["data-1"])
    assert len(membership.losses.news) == 1
    membership.note_done("dnn-1", 0)
    assert membership.end == GroupEnd(True)


@pytest.mark.parametrize("any_program", [False, True])
def test_a_data_host_that_has_not_said_that_others_take_over_counts_unless_the_user_says_it(any_program: bool) -> None:
    membership = served(any_program)
    membership.note_failure("data-3", GONE._replace(host="data-3"), 0)
    assert (membership.end is None) == any_program


def test_a_training_host_is_replaced_by_nobody() -> None:
    membership = served(any_program=True)
    membership.losses.note_replaceable("dnn-1")
    membership.note_failure("dnn-1", BROKEN, 0)
    assert membership.end == BROKEN


def test_the_last_data_hosts_failure_names_the_first_and_has_its_exit_code() -> None:
    membership = served(any_program=True)
    membership.note_failure("data-1", GONE, 0)
    membership.note_lost("data-2", "closed")
    assert membership.end is None
    membership.note_failure("data-3", GroupEnd(False, 9, "data-3", "no disk"), 0)
    assert membership.end is not None
    assert (membership.end.host, membership.end.exit_code) == ("data-1", 137)
    assert membership.end.cause == f"{GONE.cause}; no data host of its group is left, the last one: no disk"


def test_what_a_data_host_failed_of_first_stays_known_when_its_container_was_started_again() -> None:
    membership = served(any_program=True)
    membership.note_failure("data-1", GONE, 0)
    assert membership.join("data-1", "its next launcher", {}) == ""
    membership.note_ready("data-1", 0)
    assert not membership.losses.gone
    membership.note_failure("data-2", GroupEnd(False, 8, "data-2", "no memory"), 0)
    membership.note_failure("data-3", GroupEnd(False, 9, "data-3", "no disk"), 0)
    assert membership.end is None
    membership.note_lost("data-1", "closed")
    assert membership.end is not None
    assert membership.end.exit_code == 137
    assert membership.end.cause.startswith(f"{GONE.cause}; no data host of its group is left, the last one: data-1 van")


def test_a_data_host_whose_part_is_over_takes_over_from_nobody() -> None:
    membership = served()
    membership.note_done("data-2", 0)
    membership.note_done("data-3", 0)
    membership.note_failure("data-1", GONE, 0)
    assert membership.end == GONE


def test_a_data_host_that_fails_before_the_processes_run_fails_the_job() -> None:
    hosts = ("dnn-1", *DATA)
    membership = Membership(GroupRules(hosts, hosts[:1], data_groups=(DATA,), any_data_program=True))
    for host in hosts:
        membership.join(host, host, {})
    membership.note_failure("data-1", GONE, 0)
    assert membership.end == GONE


def test_a_data_host_that_vanished_is_waited_for_by_nobody_and_serves_again_when_it_is_back() -> None:
    membership = served(restarts=1)
    membership.note_lost("data-1", "nothing heard for 60 s")
    membership.note_failure("dnn-1", BROKEN, 0)
    for host in ("dnn-1", *DATA[1:]):
        membership.note_ready(host, 1)
    assert (membership.generation, membership.all_ready) == (1, True)
    assert membership.join("data-1", "launcher on data-1", {}) == ""
    assert (membership.all_ready, membership.losses.gone) == (False, {})


def test_a_data_host_whose_container_was_started_again_is_welcome_unless_it_is_the_only_one() -> None:
    membership = served()
    assert membership.join("data-1", "another launcher", {}) == ""
    assert (membership.end, membership.losses.gone) == (None, {})
    for host in DATA[1:]:
        membership.note_done(host, 0)
    assert "joined already" in membership.join("data-1", "one more launcher", {})


def test_a_restart_of_all_counts_on_a_data_host_that_failed_again() -> None:
    membership = served(restarts=1)
    membership.note_failure("data-1", GONE, 0)
    membership.note_failure("dnn-1", BROKEN, 0)
    assert (membership.generation, membership.losses.gone) == (1, {})
    assert "data-1" in membership.missing


def test_a_data_host_that_an_elastic_job_does_without_for_a_while_has_not_ended() -> None:
    """Its machine is taken back, and another one comes: those that train wait for it."""
    membership = served(least=1)
    membership.note_done("data-1", 0)
    membership.note_stopping("data-2")
    membership.note_done("data-2", 0)
    assert (membership.through, membership.end) == (["data-1"], None)


def test_the_address_of_a_host_that_left_is_told_to_nobody_until_it_is_back() -> None:
    hosts = ("dnn-1", "data-1")
    membership = Membership(GroupRules(hosts, hosts[:1], data_groups=(hosts[1:],), least=1))
    coordinator = Coordinator([], b"", membership, 60.0)
    for host in hosts:
        membership.join(host, f"first launcher on {host}", {"address": "10.0.0.2", "door": 7})
    membership.left.add("data-1")  # as an elastic job's host that was stopped
    told = unpack_json(coordinator._facts()["packed"])
    assert told == {"dnn-1": {"address": "10.0.0.2", "door": 7}, "data-1": {"address": "", "door": 7}}
    assert membership.join("data-1", "its next launcher", {"address": "10.0.0.9", "door": 8}) == ""
    assert unpack_json(coordinator._facts()["packed"])["data-1"] == {"address": "10.0.0.9", "door": 8}
