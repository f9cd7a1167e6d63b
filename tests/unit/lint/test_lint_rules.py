"""The rules find every planted mistake, each on its line, and nothing in scripts that were not written for them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dlc_lint import lint
from dlc_lint.rules import ALL

ROOT = Path(__file__).parents[3]
MISTAKES = sorted((Path(__file__).parent / "mistakes").rglob("*.py"))
MARK = re.compile(r"# mistake: (.*)")
# Scripts of other tests and the examples. Nobody wrote them for the linter.
OTHERS = sorted(
    path
    for folder in (
        "tests/scripts",
        "tests/integration/scripts",
        "examples",
        "tests/gpu/programs",
        "tests/container/scripts",
    )
    for path in (ROOT / folder).rglob("*.py")
)
# True findings in scripts that are right for the tests that run them.
TRUE_FINDINGS = {
    ("tests/integration/scripts/horovod_fit.py", "DLC201"),  # a loop without tf.function
    ("tests/integration/scripts/xla_trainer.py", "DLC115"),  # its test compares the loss of every step
    ("tests/scripts/pytorch/resnet_ddp.py", "DLC142"),  # its batches are few and small
}


def planted(path: Path) -> set[tuple[int, str]]:
    found = set()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = MARK.search(line)
        found |= {(number, code) for code in re.split(r", ", match[1])} if match else set()
    return found


def found(path: Path, **options: str) -> set[tuple[int, str]]:
    return {(one.place.line, one.code) for one in lint(path.read_text(), str(path), **options)}


@pytest.mark.parametrize("path", MISTAKES, ids=lambda path: path.stem)
def test_each_planted_mistake_is_found_on_its_line_and_nothing_else(path: Path) -> None:
    assert found(path) == planted(path)


def test_at_least_forty_mistakes_are_planted_and_every_rule_has_one() -> None:
    codes = [code for path in MISTAKES for _, code in planted(path)]
    assert len(codes) >= 40
    assert set(codes) == {rule.code for rule in ALL}


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_is_found_in_scripts_that_were_not_written_for_the_rules(path: Path) -> None:
    name = path.relative_to(ROOT).as_posix()
    assert {(name, code) for _, code in found(path)} == {one for one in TRUE_FINDINGS if one[0] == name}


def test_there_are_at_least_twenty_such_scripts_with_a_framework() -> None:
    training = [
        path for path in OTHERS if re.search(r"^\s*(import|from) (torch|tensorflow|keras)", path.read_text(), re.M)
    ]
    assert len(training) >= 20


STEP = """\
import tensorflow as tf


def train_step(x, y):
    {line}
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
    return loss


for x, y in batches:
    train_step(x, y)
"""


@pytest.mark.parametrize(
    ("line", "says", "says_not"),
    [
        ("pass", "@tf.function(jit_compile=True)", "outside"),
        ("show(x.numpy())", "and leave x.numpy() of line 5 outside of it", "depends on values"),
        ("x = tf.sparse.retain(x, x.values > 0)", "the shape of tf.sparse.retain in line 5", "@tf.function(jit"),
        ("x = tf.boolean_mask(x, x > 0)", "cannot have jit_compile=True as it is", "@tf.function(jit"),
    ],
)
def test_the_advice_for_a_step_without_tf_function_works_for_that_step(line: str, says: str, says_not: str) -> None:
    [finding] = lint(STEP.format(line=line))
    assert finding.code == "DLC201"
    assert says in finding.message
    assert says_not not in finding.message
