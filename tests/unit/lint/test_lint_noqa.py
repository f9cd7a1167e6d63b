"""What `# noqa` silences, and which of them is said to silence nothing."""

from __future__ import annotations

import pytest

from dlc_lint import lint
from harness.lint_runs import BREAKS


def codes(comment: str) -> list[str]:
    return [one.code for one in lint(BREAKS.replace("print(x)", f"print(x)  {comment}"))]


@pytest.mark.parametrize(
    ("comment", "left"),
    [
        ("", ["DLC113"]),
        ("# noqa", []),
        ("# NOQA", []),
        ("#noqa", []),
        ("# noqa: DLC113", []),
        ("# noqa:dlc113", []),
        ("# noqa: E501, DLC113", []),
        ("# type: ignore  # noqa: DLC113", []),
        ("# noqa: DLC113 it is read once", []),
        ("# noqa: E501", ["DLC113"]),
        ("# noqa: DLC111", ["DLC001", "DLC113"]),
        ("# noqa: DLC111, DLC113", ["DLC001"]),
        ("# noqable", ["DLC113"]),
        ("# say noqa", ["DLC113"]),
    ],
)
def test_a_noqa_silences_its_codes_on_its_line_and_an_unused_one_is_said(comment: str, left: list[str]) -> None:
    assert sorted(codes(comment)) == left


def test_a_noqa_on_the_last_line_of_a_long_call_counts_too() -> None:
    long = "import torch\nslope = torch.autograd.grad(\n    y, x, create_graph=True\n)\n"
    assert [one.place.line for one in lint(long)] == [3]
    assert lint(long.replace("create_graph=True", "create_graph=True  # noqa: DLC133")) == []


def test_a_noqa_in_a_string_is_no_comment() -> None:
    assert [one.code for one in lint(BREAKS.replace("print(x)", "print('# noqa')"))] == ["DLC113"]


def test_codes_of_rules_that_were_not_asked_are_not_said_to_be_unused() -> None:
    assert lint("x = 1  # noqa: DLC113\n", framework="tensorflow") == []
    assert [one.code for one in lint("x = 1  # noqa: DLC113\n", framework="pytorch")] == ["DLC001"]


def test_a_noqa_for_a_job_with_another_compiler_is_not_unused() -> None:
    text = (
        "from torch.utils.data import DataLoader\nfrom data import rows\n\n"
        "train = DataLoader(rows, batch_size=8, shuffle=True, num_workers=2)  # noqa: DLC102\n"
    )
    assert all(lint(text, compiler=compiler) == [] for compiler in ("", "inductor", "xla"))
    assert [one.code for one in lint(text.replace("# noqa: DLC102", ""), compiler="xla")] == ["DLC102"]
