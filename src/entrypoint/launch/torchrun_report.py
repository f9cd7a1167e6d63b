"""Reads out of torchrun's closing report which rank failed first and how: torchrun itself always exits with 1."""

from __future__ import annotations

import re

from launch.outcome import Failure

LAST_LINES = 20
_ROOT_CAUSE = re.compile(
    r"Root Cause \(first observed failure\):.*?rank\s*: (\d+) \(local_rank: \d+\).*?exitcode\s*: (-?\d+) \(pid: \d+\)",
    re.DOTALL,
)


def root_cause(failure: Failure, output: str) -> Failure:
    """The failure with the rank, exit code and last lines of the rank that failed first; itself without a report.

    `output` is the last of torchrun's stderr, in which the ranks' lines begin with [host:rank].
    """
    match = _ROOT_CAUSE.search(output)
    # A stopped torchrun ends its ranks with signals and reports those: the stop request is the cause.
    if match is None or not failure.cause.startswith(failure.role):
        return failure
    import signal  # its names are needed only here

    rank, code = int(match[1]), int(match[2])
    name = signal.Signals(-code).name if code < 0 and -code in set(signal.Signals) else ""
    how = f"was ended by {name or f'signal {-code}'}" if code < 0 else f"exited with code {code}"
    why = "".join(failure.cause.partition(": ")[1:])  # such as: out of memory
    prefix = f"[{failure.host}:{rank}] "
    lines = tuple(line[len(prefix) :] for line in output.splitlines() if line.startswith(prefix))
    return failure._replace(
        cause=f"worker rank {rank} on {failure.host} {how}{why}",
        role="worker",
        rank=rank,
        exit_code=128 - code if code < 0 else code,
        signal=name,
        last_lines=lines[-LAST_LINES:] or failure.last_lines,
    )
