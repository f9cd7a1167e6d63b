"""Batches on the device that trains: devices that every torch has."""

from __future__ import annotations

from typing import Any

import pytest
from service_runs import answer_of


@pytest.fixture(scope="module")
def found(torch_python: str) -> Any:
    return answer_of(torch_python, "to_a_device.py")


def test_every_tensor_of_a_nested_batch_is_on_the_device_and_the_structure_stays(found: Any) -> None:
    for number, batch in enumerate(found["meta"]):
        tensors = {"pair": ["Pair", ["meta", [2, 2]], "n"], "list": ["list", ["meta", [1]], ["tuple", ["meta", [0]]]]}
        assert batch == {**tensors, "n": number}
    assert len(found["meta"]) == 6


def test_on_the_cpu_batches_stay_as_they_came(found: Any) -> None:
    assert found["cpu"] == found["None"]
    assert found["cpu"][0]["pair"][1] == ["cpu", [2, 2]]


@pytest.mark.parametrize(("device", "words"), [("cuda:99", "is not on this host"), ("nonsense", "expected a device")])
def test_a_device_that_is_not_here_is_refused_by_name(found: Any, device: str, words: str) -> None:
    assert words in found["refused"][device]
    assert device in found["refused"][device]
