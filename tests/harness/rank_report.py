"""A rank's report of the compiler, with all that a page shows."""

from __future__ import annotations

from typing import Any

from dlc_runtime.compiler.report.record import Record, cause_of
from dlc_runtime.compiler.report.step_times import AFTER, EAGER, WARM_UP, StepTimes

MARKUP = "<script>alert('x')</script> & <b>"


def rank_report(rank: int = 0, count: int = 40) -> dict[str, Any]:
    steps, record, now = StepTimes(), Record(), 0.0
    for step in range(1, count + 1):
        phase, took = (EAGER, 0.2) if step <= 5 else (WARM_UP, 8.0) if step in (6, 20) else (AFTER, 0.1)
        now += took
        steps.tick(phase, now)
    where = {"function": "Net", "file": "/opt/ml/code/train.py", "line": 12, "step": 6}
    record.add_graph("0/0", where, 7.5, 30)
    record.add_graph("0/1", {**where, "step": 20}, 7.5, 30)
    cause = cause_of("0/0: tensor 'x' size mismatch at index 1. expected 16, actual 24")
    record.add_recompilation({**where, "step": 20}, 7.5, cause)
    record.add_break(MARKUP, (("/opt/ml/code/train.py", 7),))
    for number in (100, 9, 20):
        record.modules.append({"module": f"M{number}", "file": "a.py", "line": 1, "parameters": number})
    record.warn(MARKUP)
    held = {"rank": rank, "pid": 100 + rank, "host": "algo-1", "state": "ended", "started": 1.0, "framework": "torch"}
    return {**held, "device": "cpu", "steps": steps.as_json(), **record.as_json()}
