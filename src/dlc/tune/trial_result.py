"""Judges a trial, from the reports of its ranks and the exit codes of its hosts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlc.places.local.lifecycle import ContainerState
from dlc_runtime.scaling.batch_search import says_memory

FITS, TIGHT, MEMORY, TIME, DATA, FAILED = "fits", "tight", "memory", "time", "data", "failed"
KILLED = 137
# The state of a report whose rank took all steps.
MEASURED = "measured"
# Below this share of the expected bytes the script ignored the requested batch size.
SAME_BATCH = 0.6
# A rank's report, as dlc_runtime.profile writes it.
Report = Mapping[str, Any]


@dataclass(frozen=True)
class Trial:
    """One batch size in one mode. Bytes are of the host, or the accelerator, that came closest to its limit."""

    mode: str
    batch: int
    outcome: str
    peak: int | None = None
    # The peak without the first steps.
    steady: int | None = None
    limit: int | None = None
    on_device: bool = False
    step_seconds: float | None = None
    reason: str = ""

    @property
    def fits(self) -> bool:
        return self.outcome == FITS


@dataclass(frozen=True)
class Ended:
    """A trial's hosts when all have ended: host -> its state, its ranks' reports; and what they said last."""

    states: Mapping[str, ContainerState]
    reports: Mapping[str, Sequence[Report]]
    # The failure files, and the end of the log.
    said: str
    # Whether it was killed after the time of a trial.
    expired: bool


@dataclass(frozen=True)
class Room:
    """Memory that was taken of what there is."""

    peak: int
    steady: int
    limit: int | None
    on_device: bool

    @property
    def used(self) -> float:
        return self.peak / self.limit if self.limit else 0.0


def judge_trial(mode: str, batch: int, ended: Ended, margin: float, sample_bytes: float = 0.0) -> Trial:
    """Judge a trial. `sample_bytes` are those of a sample in a batch that was as asked; 0 if none was seen."""
    reports = [report for reports in ended.reports.values() for report in reports]
    if any("memory" not in report for report in reports):
        return Trial(mode, batch, FAILED, reason="the image's dlc_runtime does not measure memory: build it again")
    if not _is_whole(ended, reports) or any(state.out_of_memory for state in ended.states.values()):
        outcome, reason = _explain_misfit(ended, reports)
        return Trial(mode, batch, outcome, reason=reason)
    expected = sample_bytes * batch
    if expected and any(0 < report["batch_bytes"] < SAME_BATCH * expected for report in reports):
        seen = min(report["batch_bytes"] for report in reports)
        reason = f"the script trained on a batch of {seen:.0f} bytes, where {expected:.0f} were to be expected"
        return Trial(mode, batch, DATA, reason=reason)
    room = max(_list_rooms(ended), key=lambda room: (room.used, room.on_device, room.peak))
    tight = room.used > 1 - margin
    reason = f"leaves less than {margin:.0%} of the memory" if tight else ""
    return Trial(
        mode, batch, TIGHT if tight else FITS, room.peak, room.steady, room.limit, room.on_device,
        max(report["step_seconds"] for report in reports), reason,
    )  # fmt: skip


def _is_whole(ended: Ended, reports: Sequence[Report]) -> bool:
    """Tell whether all ranks of all hosts took all steps."""
    ranks = max((report["ranks"] for report in reports), default=1)
    return (
        all(ended.reports.get(host) for host in ended.states)
        and len(reports) >= ranks
        and all(report["state"] == MEASURED for report in reports)
    )


def _explain_misfit(ended: Ended, reports: Sequence[Report]) -> tuple[str, str]:
    codes = {state.exit_code for state in ended.states.values()}
    if any(state.out_of_memory for state in ended.states.values()):
        return MEMORY, "killed by the kernel"
    if ended.expired:
        return TIME, "not done within the time of a trial"
    if said := says_memory(ended.said):
        return MEMORY, said
    if KILLED in codes:
        return MEMORY, "killed"
    if codes == {0}:
        steps = min((report["steps"] for report in reports), default=0)
        return DATA, f"the script ended after {steps} measured steps of its training loop"
    return FAILED, ended.said.strip().partition("\n")[0]


def _list_rooms(ended: Ended) -> list[Room]:
    """List memories: ranks of a host share its memory; each has an accelerator of its own."""
    rooms = []
    for reports in ended.reports.values():
        hosts = [report["memory"]["host"] for report in reports]
        limit = next((host["limit"] for host in hosts if host["limit"]), None)
        rooms.append(Room(sum(h["peak"] for h in hosts), sum(h["steady"] for h in hosts), limit, on_device=False))
        for device in (report["memory"]["device"] for report in reports):
            if device:
                rooms.append(Room(device["peak"], device["steady"], device["limit"], on_device=True))
    return rooms
