"""How long a stop leaves a job to save: within what its platform gives, and said where only a default tells it."""

from __future__ import annotations

import pytest

from launch.supervision.graceful_stop import describe_stop
from launch.supervision.settings import Settings, assumed_grace, stop_limits


@pytest.mark.parametrize(
    ("environ", "stop_grace"),
    [
        ({}, 7.0),
        ({"TRAINING_JOB_NAME": "job"}, 100.0),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, 21.0),
        ({"SLURM_JOB_ID": "1"}, 21.0),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "DLC_TERMINATION_GRACE": "600"}, 580.0),
        ({"DLC_STOP_GRACE": "45"}, 45.0),
        ({"DLC_STOP_GRACE": "9"}, 9.0),
    ],
)
def test_the_grace_is_within_the_platforms_time(environ: dict[str, str], stop_grace: float) -> None:
    limits = stop_limits(environ)
    assert limits.stop == stop_grace
    assert limits.margin >= 1.0
    if "DLC_STOP_GRACE" not in environ:
        assert limits.stop + limits.margin in (10.0, 30.0, 120.0, 600.0)


def test_what_a_stop_is_taken_to_leave_is_said_where_only_a_default_tells_it() -> None:
    assert "leave 10 s, the default of `docker stop`, and 7 of them to save" in assumed_grace({})
    assert "leave 30 s, the default of terminationGracePeriodSeconds" in assumed_grace({"KUBERNETES_SERVICE_HOST": "x"})
    for said in ({"TRAINING_JOB_NAME": "job"}, {"DLC_TERMINATION_GRACE": "30"}, {"DLC_STOP_GRACE": "5"}):
        assert assumed_grace(said) == ""


def test_at_the_first_signal_the_seconds_that_are_left_are_said_with_the_variable_that_gives_more() -> None:
    said = describe_stop("stopped by SIGTERM", Settings(stop_grace=7.0, stop_margin=3.0))
    assert said.startswith("stopped by SIGTERM: ")
    assert "7 s to save of the 10 s until the place's SIGKILL (DLC_TERMINATION_GRACE)" in said
