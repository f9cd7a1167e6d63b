"""buildspec.locks.updates: newer versions that every image can have are listed, and written without other changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from dlc.buildspec.files import read_buildspec
from dlc.buildspec.locks import resolve, updates
from dlc.buildspec.locks.updates import (
    Pin,
    Proposal,
    apply_proposals,
    find_pins,
    find_proposals,
    list_range_constraints,
    loosen,
)
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.variant import Variant
from dlc.cli import run
from dlc.core.checkout import Tree, read_tree
from dlc.core.errors import LockError, SpecError, UsageError
from harness.specimen import COMPAT, PINS, PYTORCH, PYTORCH_PATH, TENSORFLOW_ID, TORCH_ID, changed, specimen, write_tree

PINS_PATH = "buildspec/pins.yml"


def variant(tree: Tree, identifier: str) -> Variant:
    (found,) = load_variants(tree, [identifier])
    return found


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], list[tuple[list[str], list[str]]]]:
    """An index that answers each framework's resolution with what a test says; it notes what it was asked."""
    questions: list[tuple[list[str], list[str]]] = []

    def answer_with(answers: dict[str, str]) -> list[tuple[list[str], list[str]]]:
        def answer(request: resolve.LockRequest, requirements: Sequence[str], limits: Sequence[str] = ()) -> str:
            questions.append((list(requirements), list(limits)))
            name = request.framework[0].partition("==")[0]
            excluded = any(limit.startswith(f"{name}!=") for limit in limits)
            return answers[f"{name} again" if excluded else name]

        monkeypatch.setattr(resolve, "resolve_packages", answer)
        return questions

    return answer_with


def proposed(tree: Tree, only: Sequence[str] = ()) -> dict[str, str]:
    return {found.pin.name: found.version for found in find_proposals(tree, load_variants(tree), only)}


def test_pins_say_where_they_are_written() -> None:
    marks = {pin.name: (str(pin.mark), pin.version) for pin in find_pins(specimen(), variant(specimen(), TORCH_ID))}
    assert marks["numpy"] == (f"{PINS_PATH}:2:10", "2.4.6")
    assert marks["torch"][0].startswith(f"{PYTORCH_PATH}:6:")
    assert marks["torch"][1] == "2.13.0+cpu"


def test_a_shared_pin_gets_what_the_most_limited_image_can_have(
    index: Callable[[dict[str, str]], list[tuple[list[str], list[str]]]],
) -> None:
    index({
        "torch": "torch==2.13.0+cpu\nnumpy==2.6.0\ntransformers==5.23.0\n",
        "tensorflow-cpu": "tensorflow-cpu==2.21.3\nnumpy==2.5.1\ntransformers==5.24.0\n",
    })  # fmt: skip
    assert proposed(specimen()) == {"numpy": "2.5.1", "tensorflow-cpu": "2.21.3"}


def test_nothing_older_is_proposed(index: Callable[[dict[str, str]], list[tuple[list[str], list[str]]]]) -> None:
    older = "numpy==1.26.0\ntransformers==5.23.0\n"
    index({"torch": f"torch==2.13.0+cpu\n{older}", "tensorflow-cpu": f"tensorflow-cpu==2.21.0\n{older}"})
    assert proposed(specimen()) == {}


def test_another_build_of_the_framework_is_passed_over(
    index: Callable[[dict[str, str]], list[tuple[list[str], list[str]]]],
) -> None:
    same = "numpy==2.4.6\ntransformers==5.23.0\n"
    questions = index({
        "torch": f"torch==2.13.2+cu130\n{same}",
        "torch again": f"torch==2.13.1+cpu\n{same}",
        "tensorflow-cpu": f"tensorflow-cpu==2.21.0\n{same}",
    })  # fmt: skip
    assert proposed(specimen()) == {"torch": "2.13.1+cpu"}
    assert "torch!=2.13.2+cu130" in questions[1][1]


def test_only_the_named_packages_may_move(index: Callable[[dict[str, str]], list[tuple[list[str], list[str]]]]) -> None:
    newer = "numpy==2.9.0\ntransformers==5.23.0\n"
    questions = index({"torch": f"torch==2.13.0+cpu\n{newer}", "tensorflow-cpu": f"tensorflow-cpu==2.21.0\n{newer}"})
    assert proposed(specimen(), ["NumPy"]) == {"numpy": "2.9.0"}
    assert questions[0][0] == ["torch==2.13.0+cpu", "transformers==5.23.0", "numpy"]


def test_the_framework_stays_in_its_series_and_keeps_its_extras() -> None:
    text = PYTORCH.replace("torch==2.13.0+cpu", '"torch[opt]==2.13.0"')
    torch = variant(changed(specimen(), PYTORCH_PATH, text), TORCH_ID)
    assert loosen(torch, "torch[opt]==2.13.0", ["torch"]) == "torch[opt]==2.13.*"
    assert loosen(torch, "numpy==2.4.6", ["numpy"]) == "numpy"
    assert loosen(torch, "numpy==2.4.6", ["torch"]) == "numpy==2.4.6"


def test_what_compat_asks_of_an_image_limits_its_resolution_and_no_others() -> None:
    rule = (
        "  - when: {framework: pytorch}\n    then: {packages: {NumPy: '<2.5, >=2', torch: '2.1*'}}\n    why: a test\n"
    )
    tree = changed(specimen(), "buildspec/compat.yml", COMPAT + rule)
    compat = read_buildspec(tree).compat
    assert list_range_constraints(variant(tree, TORCH_ID), compat, ["numpy", "torch"]) == ["NumPy<2.5,>=2"]
    assert list_range_constraints(variant(tree, TENSORFLOW_ID), compat, ["numpy", "torch"]) == []


def test_only_the_version_on_its_line_changes() -> None:
    tree = changed(specimen(), PINS_PATH, PINS.replace("numpy: 2.4.6", 'numpy: "2.4.6"  # not 2.4.7 because of 2.4.6'))
    pins = {pin.name: pin for pin in find_pins(tree, variant(tree, TORCH_ID))}
    texts = apply_proposals(tree, [Proposal(pins["numpy"], "2.5.0"), Proposal(pins["torch"], "2.13.1+cpu")])
    assert texts[PINS_PATH] == PINS.replace("numpy: 2.4.6", 'numpy: "2.5.0"  # not 2.4.7 because of 2.4.6')
    assert texts[PYTORCH_PATH] == PYTORCH.replace("2.13.0+cpu", "2.13.1+cpu")
    after = variant(updates.replace_texts(tree, texts), TORCH_ID)
    assert after.framework_requirements == ("torch==2.13.1+cpu",)
    assert "numpy==2.5.0" in after.training_requirements


def test_a_line_that_does_not_hold_the_version_is_left_alone() -> None:
    pin = find_pins(specimen(), variant(specimen(), TORCH_ID))[-1]
    with pytest.raises(SpecError, match=r"pins\.yml:2:10: expected 9\.9 on this line, found '2\.4\.6'"):
        apply_proposals(specimen(), [Proposal(Pin(pin.mark, pin.name, "9.9"), "9.10")])


def test_a_package_that_nothing_pins_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        proposed(specimen(), ["numpi", "Transformers"])
    assert caught.value.message == "numpi: expected a pinned package; did you mean 'numpy'?"


def test_pins_are_written_only_together_with_sound_locks(
    index: Callable[[dict[str, str]], list[tuple[list[str], list[str]]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_tree(specimen(), tmp_path)
    monkeypatch.chdir(tmp_path)
    two_majors = "nvidia-cublas-cu12==12.8.4.1\nnvidia-nccl-cu13==2.30.7\n"
    index({
        "torch": "torch==2.13.0+cpu\nnumpy==2.5.0\ntransformers==5.23.0\n",
        "tensorflow-cpu": f"tensorflow-cpu==2.21.0\nnumpy==2.5.0\ntransformers==5.23.0\n{two_majors}",
    })  # fmt: skip
    monkeypatch.setattr(resolve, "_run_resolution", lambda *_: "")
    with pytest.raises(LockError, match="expected one CUDA major"):
        run(["update", "packages", "--write"])
    assert read_tree(tmp_path) == specimen()
