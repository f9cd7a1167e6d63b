"""Public issues of PyTorch about silently wrong results: what plain torch.compile gets wrong dlc never trains with.

Whether plain torch.compile is wrong is computed here, for the version at hand, without dlc's comparison.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from reproducers.case import REPRODUCERS, Reproducer  # noqa: E402 - they need torch
from reproducers.judge import differences, find_wrong, run_by_dlc, run_eager  # noqa: E402

# Torch warns while it compiles.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize("reproducer", REPRODUCERS, ids=[each.name for each in REPRODUCERS])
def test_wrong_compiled_code_is_refused_before_a_step_and_right_code_is_used(reproducer: Reproducer) -> None:
    eager = run_eager(reproducer.make)
    assert differences(eager, run_eager(reproducer.make)) == []
    wrong = find_wrong(reproducer.make)
    print(f"torch {torch.__version__}: {reproducer.issue} is {'; '.join(wrong) or 'right'}")
    found = run_by_dlc(reproducer.make, sampled=reproducer.unnoticed)
    assert differences(eager, found.steps) == []
    if not wrong:
        assert found.refused == ""
