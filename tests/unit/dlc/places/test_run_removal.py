"""places.local.lifecycle: an engine that is busy refuses a removal for a while, and each of its answers takes long."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import pytest

from dlc.core.errors import ProcessError
from dlc.core.process import Completed
from dlc.engine.docker_client import Engine
from dlc.engine.questions import ASK_SECONDS
from dlc.places.local import lifecycle

BUSY = "Error response from daemon: cannot remove container: tried to kill container, but did not receive an exit event"


class BusyEngine(Engine):
    """Refuses to remove the job's one container so many times; every answer takes `seconds` of the tests' clock."""

    def docker(self, *words: str, **_: object) -> Completed:
        clock.now += clock.seconds
        if words[0] == "rm":
            clock.refused.append(next(clock.attempts) < clock.times)
            return Completed(words, int(clock.refused[-1]), "", BUSY if clock.refused[-1] else "")
        there = words[0] == "ps" and (not clock.refused or clock.refused[-1])
        return Completed(words, 0, "dlc-j-algo-1\n" if there else "", "")


clock = SimpleNamespace()
ENGINE = BusyEngine(None, "context", "26", containerd_store=True)


@pytest.fixture(autouse=True)
def own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock.__dict__.update(now=0.0, seconds=0.1, times=0, refused=[], attempts=count())

    def sleep(seconds: float) -> None:
        clock.now += seconds

    monkeypatch.setattr(lifecycle, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))


@pytest.mark.parametrize("seconds", [0.1, 12.0])
def test_a_removal_that_a_busy_engine_refuses_five_times_is_tried_again(seconds: float) -> None:
    clock.seconds, clock.times = seconds, 5
    assert lifecycle.remove_containers(ENGINE, "j") == ["dlc-j-algo-1"]
    assert clock.refused == [True] * 5 + [False]


def test_what_stays_is_an_error_with_the_engines_words_after_a_bound() -> None:
    clock.times = 10**6
    with pytest.raises(ProcessError, match="dlc-j-algo-1: Error response from daemon: cannot remove container"):
        lifecycle.remove_containers(ENGINE, "j")
    assert ASK_SECONDS < clock.now < ASK_SECONDS + 2 * lifecycle.LAST_PAUSE
