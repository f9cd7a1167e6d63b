"""What transformers computes without an attention mask is compiled without one; never where a batch needs it."""

from __future__ import annotations

from typing import Any

import pytest
from torch_runs import Runner

MODELS = ("bert", "vit", "gpt2", "llama")
TOLERANCE = 1e-5  # relative


@pytest.fixture
def needs_transformers(runner: Runner) -> None:
    if "transformers" not in runner.python.has:
        pytest.skip("the Python that runs the scripts has no transformers")


def compare(runner: Runner, *cases: str) -> dict[str, Any]:
    """Each case's graphs, and which batches ran uncompiled; asserts that losses and gradients are eager's."""
    found: dict[str, Any] = runner.run("masks.py", *cases, compiler="").results[0]
    for case, result in found.items():
        for eager, compiled in result["numbers"]:
            assert compiled == pytest.approx(eager, rel=TOLERANCE, abs=TOLERANCE), case
    return found


def masks(result: dict[str, Any]) -> list[bool]:
    """Of each call of scaled_dot_product_attention in what was compiled."""
    return [has for graph in result["graphs"] for has in graph]


@pytest.mark.usefixtures("needs_transformers")
def test_no_mask_is_compiled_where_eager_code_computes_none(runner: Runner) -> None:
    cases = [*MODELS, "bert:ones", "gpt2:ones", "llama:ones", "gpt2:counts", "llama:counts", "gpt2:cached"]
    for case, result in compare(runner, *cases).items():
        assert set(masks(result)) == {False}, case
        assert not any(result["misses"]), case


@pytest.mark.usefixtures("needs_transformers")
def test_a_batch_with_padding_or_packed_sequences_is_computed_with_its_mask(runner: Runner) -> None:
    found = compare(runner, "bert:padded", "llama:padded", "gpt2:padded", "llama:packed", "gpt2:packed")
    for case, result in found.items():
        assert set(masks(result)) == {False}, case
        assert result["misses"] == [0, 0, 1, 0], case


@pytest.mark.usefixtures("needs_transformers")
def test_a_mask_that_says_more_stays_in_the_graph(runner: Runner) -> None:
    """Padding in the first batch, and a window of keys shorter than the text."""
    for case, result in compare(runner, "llama:first_padded", "mistral").items():
        assert set(masks(result)) == {True}, case
        assert not any(result["misses"]), case


@pytest.mark.usefixtures("needs_transformers")
def test_where_many_batches_need_masks_everything_is_compiled_with_them(runner: Runner) -> None:
    result = compare(runner, "llama:often")["llama:often"]
    assert masks(result) == [False, True]
    assert result["misses"] == [0, 1, 1, 1, 1, 0, 0]


@pytest.mark.usefixtures("needs_transformers")
def test_masks_are_left_out_before_a_graph_is_split_for_distributed_data_parallel(runner: Runner) -> None:
    result = compare(runner, "llama:ddp")["llama:ddp"]
    assert len(result["graphs"]) > 3  # the pieces
    assert set(masks(result)) == {False}


@pytest.mark.usefixtures("needs_transformers")
def test_texts_of_changing_lengths_are_compiled_without_masks(runner: Runner) -> None:
    for case, result in compare(runner, "llama:lengths", "bert:lengths", "gpt2:lengths").items():
        assert set(masks(result)) == {False}, case
