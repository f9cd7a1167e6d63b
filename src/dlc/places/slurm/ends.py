"""What Slurm's words say of a job: how it has ended, and why it waits. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dlc.places.place import LOST_CODE, STOPPED_CODE

PENDING, COMPLETED, FAILED = "PENDING", "COMPLETED", "FAILED"
# As a shell says SIGKILL.
KILLED_CODE = 137
# State of a job that will not run any more -> its code if the job's own is 0, and what the state means.
ENDED: Mapping[str, tuple[int, str]] = {
    COMPLETED: (0, ""),
    FAILED: (1, ""),
    "BOOT_FAIL": (LOST_CODE, "a node did not start"),
    "NODE_FAIL": (LOST_CODE, "a node was lost"),
    "CANCELLED": (STOPPED_CODE, "the job was stopped"),
    "PREEMPTED": (STOPPED_CODE, "another job took the nodes"),
    "TIMEOUT": (STOPPED_CODE, "the time limit came"),
    "DEADLINE": (STOPPED_CODE, "the deadline came"),
    "OUT_OF_MEMORY": (KILLED_CODE, "a host used more than its memory"),
}
# Signal that Slurm reports with OUT_OF_MEMORY; no process gets it.
OUT_OF_MEMORY_SIGNAL = 125
# Why a job waits -> what to do. Slurm starts none of these by itself, and says no more than the first word.
NEVER: Mapping[str, str] = {
    "BadConstraints": "no node has what the job asks for; `sinfo -Nel` lists what nodes have",
    "DependencyNeverSatisfied": "the job that it follows did not end well",
    "JobHeldAdmin": "an administrator holds it",
    "JobHeldUser": "scontrol release JOB",
    "PartitionConfig": "more hosts or nodes of another kind than the partition has; `sinfo` lists partitions",
    "PartitionDown": "`sinfo` lists partitions; --with partition=NAME",
    "PartitionInactive": "`sinfo` lists partitions; --with partition=NAME",
    "PartitionNodeLimit": "more or fewer hosts than the partition allows; `scontrol show partition`",
    "PartitionTimeLimit": "a longer time than the partition allows; `scontrol show partition`, --with time=...",
    "ReqNodeNotAvail": "nodes that the job asks for are down or reserved; `sinfo -R` says why",
}
NO_REASON = ("", "None")


@dataclass(frozen=True)
class End:
    """How one component of a job has ended."""

    # A key of ENDED.
    state: str
    code: int
    signal: int

    def describe(self) -> str:
        """Return Slurm's word with what it means."""
        return f"Slurm says {self.state}: {ENDED[self.state][1]}"

    def find_code(self) -> int:
        """Return the exit code, which is 0 only if Slurm says that the job is complete."""
        if self.code:
            return self.code
        if self.signal and self.signal != OUT_OF_MEMORY_SIGNAL:
            return 128 + self.signal
        return ENDED[self.state][0]


def read_fields(line: str) -> dict[str, str]:
    """Return the fields of a line of `scontrol show --oneliner job`; of two with one name the first counts."""
    pairs = [word.split("=", 1) for word in line.split() if "=" in word]
    return dict(reversed([(key, value) for key, value in pairs]))


def read_end(fields: Mapping[str, str]) -> End | None:
    """Return the end of one component; None if it has not ended or its end is not told."""
    # The accounts say who did it: CANCELLED by 1000.
    state = next(iter(fields.get("JobState", "").split()), "")
    found = re.fullmatch(r"([0-9]+):([0-9]+)", fields.get("ExitCode", ""))
    return End(state, int(found[1]), int(found[2])) if state in ENDED and found else None


def list_ends(components: Iterable[Mapping[str, str]]) -> list[End]:
    """Return how each component has ended; nothing if one of them has not, or its end is not told."""
    ends = [read_end(fields) for fields in components if fields]
    return [end for end in ends if end] if all(ends) else []


def find_code(ends: Sequence[End]) -> int:
    """Return 0 if every component is complete, else the code of the first that is not.

    The batch script belongs to the first component, and the launcher's code is there.
    """
    return next((code for end in ends if (code := end.find_code())), 0)


def explain_waiting(reason: str) -> str:
    """Return why a job waits and, if Slurm will not start it by itself, what to do; empty if Slurm does not say."""
    # Nodes may follow: ReqNodeNotAvail, UnavailableNodes:n1.
    remedy = next((remedy for word, remedy in NEVER.items() if reason.startswith(word)), "")
    return "" if reason in NO_REASON else f"{reason}; {remedy}" if remedy else reason
