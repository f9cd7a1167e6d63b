"""How many examples a property test tries: few by default, all of them with DLC_TEST_EXAMPLES=all, as every night.

Hypothesis checks no wall-clock time here: a shared machine may be slow, which is no failure of the code.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

FEW = 20


def count(every: int) -> int:
    """So many of `every` examples."""
    return every if os.environ.get("DLC_TEST_EXAMPLES") == "all" else min(every, FEW)


def examples(every: int) -> settings:
    """For a test that wants another number than the others: `@examples(150)`."""
    return settings(max_examples=count(every))


settings.register_profile("pure", deadline=None, max_examples=count(60), suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pure")
