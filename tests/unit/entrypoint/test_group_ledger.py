"""group_ledger: when a group of hosts has ended, and how."""

from __future__ import annotations

import json

import pytest

from launch.base.errors import UNAVAILABLE
from launch.base.outcome import FAILED, HUNG, STOPPED, Failure
from launch.group.ledger import LONGEST_TEXT, End, Ledger, end_of

HOSTS = ("data-1", "dnn-1", "dnn-2")
BROKEN = End(False, 7, "dnn-2", "worker rank 1 on dnn-2 exited with code 7")


def joined() -> Ledger:
    ledger = Ledger(HOSTS, HOSTS[1:])
    for host in HOSTS:
        assert ledger.join(host, {}) == ""
    return ledger


def test_it_ends_well_when_every_member_is_done_whatever_the_others_do() -> None:
    ledger = joined()
    ledger.finished("dnn-1")
    ledger.finished("data-1")
    assert ledger.end is None
    ledger.finished("dnn-2")
    assert ledger.end == End(True)


@pytest.mark.parametrize("host", HOSTS)
def test_the_failure_of_any_host_ends_it(host: str) -> None:
    ledger = joined()
    ledger.failed(BROKEN._replace(host=host))
    assert ledger.end == BROKEN._replace(host=host)


def test_the_first_failure_stays() -> None:
    ledger = joined()
    ledger.failed(BROKEN)
    ledger.failed(End(False, 1, "dnn-1", "connection reset"))
    ledger.lost("data-1", "closed")
    assert ledger.end == BROKEN


def test_a_host_that_vanishes_fails_the_job_and_is_named() -> None:
    ledger = joined()
    ledger.lost("dnn-2", "nothing heard for 60 s")
    assert ledger.end == End(False, UNAVAILABLE, "dnn-2", "dnn-2 vanished: nothing heard for 60 s")


def test_a_host_that_is_done_may_leave() -> None:
    ledger = joined()
    ledger.finished("data-1")
    ledger.lost("data-1", "closed")
    assert ledger.end is None


def test_strangers_and_doubles_are_refused_with_the_reason() -> None:
    ledger = Ledger(HOSTS, HOSTS)
    assert "none of this job's hosts" in ledger.join("algo-9", {})
    assert ledger.join("dnn-1", {}) == ""
    assert "two hosts use one name" in ledger.join("dnn-1", {})
    assert ledger.missing == ["data-1", "dnn-2"]


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
