"""The comparison with eager refuses what is wrong, and nothing that is right: faults are put in on purpose.

What is right computes its products with twice as many digits, so that it rounds otherwise, as compiled code does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from faulty import FORMATS, GRADIENTS, MODELS, Switch, Through, Way  # noqa: E402 - they need torch

CASES = [(model, form) for model in MODELS for form in FORMATS]
WEIGHTS = ("", "head", "middle")


@contextlib.contextmanager
def fault(name: str, only: str = "") -> Iterator[None]:
    Switch.fault, Switch.only = GRADIENTS[name], only
    try:
        yield
    finally:
        Switch.fault, Switch.only, Switch.output = None, "", None


def refused(way: Way) -> str:
    from dlc_runtime.compiler.pytorch.differences import DifferentError

    try:
        way.compare()
    except DifferentError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("model", "form"), CASES)
def test_each_fault_in_a_gradient_is_refused(model: str, form: str) -> None:
    accepted = []
    for name in GRADIENTS:
        for only in WEIGHTS:
            with fault(name, only):
                if not refused(Way(model, form)):
                    accepted.append((name, only))
    assert accepted == []


@pytest.mark.parametrize(("model", "form"), CASES)
def test_what_is_right_but_rounds_otherwise_is_accepted(model: str, form: str) -> None:
    for size in (4, 16, 33):
        way = Way(model, form, size)
        before = way.kept()
        Switch.exact = True
        try:
            assert way.compare().startswith("as eager: outputs within ")
        finally:
            Switch.exact = False
        after = way.kept()
        assert all(torch.equal(value, after[name]) for name, value in before.items())
        assert all(parameter.grad is None for parameter in way.module.parameters())


@pytest.mark.parametrize(("model", "form"), CASES)
def test_outputs_that_are_one_per_cent_too_large_are_refused(model: str, form: str) -> None:
    Switch.output = lambda value: value * 1.01
    try:
        assert refused(Way(model, form))
    finally:
        Switch.output = None


@pytest.mark.parametrize(
    ("form", "share"), [*((form, share) for form in FORMATS for share in (0.0, 0.5)), ("float32", 0.99)]
)
def test_running_statistics_that_are_not_eagers_are_refused(form: str, share: float) -> None:
    way = Way("pictures", form)
    norm = way.module.body[1]  # type: ignore[index]

    def other() -> torch.Tensor:
        before = norm.running_var.clone()
        found = way.module(way.batch)
        norm.running_var.data.copy_(before + share * (norm.running_var - before))
        return found  # type: ignore[no-any-return]

    way.other = other  # type: ignore[method-assign]
    assert "in what it writes to body.1.running_var" in refused(way)


def test_the_gradient_of_an_input_is_compared() -> None:
    """As of a GAN's discriminator, through which the generator is trained."""
    from dlc_runtime.compiler.pytorch.comparison import compare_with_eager
    from dlc_runtime.compiler.pytorch.differences import DifferentError

    torch.manual_seed(1)
    module, given = torch.nn.Linear(8, 4), torch.randn(3, 8, requires_grad=True)

    def other() -> torch.Tensor:
        return module(given.detach() + (given - given.detach()) * 0.5)  # type: ignore[no-any-return]

    with pytest.raises(DifferentError, match="the gradient of input 1"):
        compare_with_eager(module, lambda: module(given), other, (given,))


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_generator_is_compared_through_what_its_discriminator_makes_of_it(name: str) -> None:
    """The discriminator is not trained in that step, and its input was computed by another compiled module."""
    from dlc_runtime.compiler.pytorch.comparison import compare_with_eager
    from dlc_runtime.compiler.pytorch.differences import DifferentError

    torch.manual_seed(1)
    generator, module = torch.nn.Linear(4, 8), torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh())
    given = generator(torch.randn(3, 4))

    with fault(name), pytest.raises(DifferentError, match="the gradient of input 1"):
        compare_with_eager(module, lambda: module(given), lambda: module(Through.apply(given)), (given,))
    assert generator.weight.grad is None


@pytest.mark.parametrize(("model", "form"), CASES)
def test_below_accumulated_gradients_faults_are_refused_and_the_gradients_stay(model: str, form: str) -> None:
    """As in the second of several batches of a step; checkpoint(use_reentrant=True) has to call backward() for it."""
    accepted = []
    for name in GRADIENTS:
        way = Way(model, form)
        for parameter in way.module.parameters():
            parameter.grad = torch.full_like(parameter, 3.0)
        with fault(name, "middle" if "pictures" in model or model == "plain" else "head"):
            if not refused(way):
                accepted.append(name)
        assert all(torch.equal(each.grad, torch.full_like(each, 3.0)) for each in way.module.parameters())
    assert accepted == []


def test_other_random_numbers_are_refused_though_the_results_are_equal() -> None:
    way = Way("plain", "float32")

    def other() -> torch.Tensor:
        found = way.module(way.batch)
        torch.rand(1)
        return found  # type: ignore[no-any-return]

    way.other = other  # type: ignore[method-assign]
    assert refused(way) == "it draws other random numbers than eager"


def test_large_tensors_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from dlc_runtime.compiler.pytorch import differences

    whole = Way("batchnorm", "float32").compare()
    monkeypatch.setattr(differences, "MOST_AT_ONCE", 7)
    assert Way("batchnorm", "float32").compare() == whole
    for name in GRADIENTS:
        with fault(name, "head"):
            assert "in the gradient of head.weight" in refused(Way("batchnorm", "float32"))
