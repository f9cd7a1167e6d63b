"""Runs jobs of scripts/known_jobs.py and holds their verdicts against the truth."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from profile_runs import Runner

from dlc.advice.cost_model import Cluster, Machine, Workload
from dlc.advice.decide import COST, make_advice
from dlc.advice.obstacle import hold_against
from dlc.advice.profile_report import Profile, read_profile
from dlc.advice.profile_text import summarize
from dlc.advice.verdict import ELSEWHERE, OTHERS, PROCESSORS, QUEUED, UNKNOWN, split_batch

MACHINE = Machine("m", 64, 0, "", 64.0, 10.0, efa=False, price=3.6)


class Truth(NamedTuple):
    """What a job waits for, and words of the answer."""

    kind: str
    words: str


def run_jobs(runner: Runner, *names: str) -> dict[str, Path]:
    """Run these jobs and return the folder of each one's reports."""
    ended = runner.run("-m", "dlc_runtime.profile", "known_jobs.py", str(runner.folder), *names)
    assert ended.code == 0, ended.log
    for name in names:
        assert f"{name}: 0" in ended.log.splitlines(), ended.log
    return {name: runner.folder / name for name in names}


def starved(profile: Profile) -> bool:
    """Tell whether this host's other work left the job no processor: then this is what it waited for."""
    rank = profile.slowest
    shares = split_batch(rank)
    workers = shares is not None and shares.queued >= QUEUED and shares.queued >= shares.asleep
    return workers or rank.wait_queued >= rank.wait / 2 or rank.wait_queued >= rank.wait - 0.05


def assert_true(folder: Path, truth: Truth) -> None:
    """Hold the verdict and the advice against the truth. What the host took, or what cannot be told, may be said."""
    profile = read_profile([folder])
    said = summarize(profile)
    if profile.kind in (OTHERS, PROCESSORS) and truth.kind not in (OTHERS, PROCESSORS):
        assert starved(profile), said
    elif profile.kind in (ELSEWHERE, UNKNOWN):
        assert "not sure" in said
    else:
        assert (profile.kind, truth.words in said) == (truth.kind, True), said
    if profile.kind != "computing":
        assert_no_false_figures(profile)


def assert_no_false_figures(profile: Profile) -> None:
    """A job that waits gets no figure of a step that never waits, but for a machine with more processors."""
    job = Workload(profile.step, profile.cpu or 1e-9, profile.cpu or 1e-9)
    advice = hold_against(profile, make_advice(Cluster(MACHINE), job, {"m": MACHINE}, [], COST, None))
    assert "never waits" not in advice.why
    if profile.kind != PROCESSORS:
        assert advice.is_measured, advice
        assert advice.now.seconds >= 0.8 * profile.interval, advice
