"""The launcher's own NamedTuple against the one of `typing`, whose place it takes."""

from __future__ import annotations

import pickle
import typing

import pytest

from launch.base.compat import NamedTuple


class Own(NamedTuple):
    """Words."""

    name: str
    number: int = 3

    @property
    def doubled(self) -> int:
        return self.number * 2

    def called(self, title: str) -> str:
        return f"{title} {self.name}"


class Typings(typing.NamedTuple):
    """Words."""

    name: str
    number: int = 3


@pytest.mark.parametrize("of", ["__doc__", "__module__", "_fields", "_field_defaults", "__bases__"])
def test_a_class_is_what_typing_would_have_made(of: str) -> None:
    assert getattr(Own, of) == getattr(Typings, of)


def test_a_value_has_fields_defaults_methods_and_properties() -> None:
    value = Own("n")
    assert value == ("n", 3)
    assert (value.doubled, value.called("Dr"), repr(value)) == (6, "Dr n", "Own(name='n', number=3)")
    assert value._replace(number=4) == Own("n", number=4)
    assert pickle.loads(pickle.dumps(value)) == value


@pytest.mark.parametrize("arguments", [(), ("n", 1, 2)])
def test_too_few_or_too_many_values_are_refused(arguments: tuple[object, ...]) -> None:
    with pytest.raises(TypeError):
        Own(*arguments)  # type: ignore[arg-type]
