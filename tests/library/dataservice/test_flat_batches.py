"""Batches that are plain tensors: they are described as any other batch, the short way or the long one."""

from __future__ import annotations

from typing import Any

import pytest

from dlc_runtime.dataservice.wire import serialization

torch = pytest.importorskip("torch")


def content(packed: serialization.Packed) -> tuple[Any, ...]:
    return packed.schema, packed.extras, [bytes(part) for part in packed.parts], packed.size


def flat(batch: Any) -> serialization.Packed | None:
    return serialization._pack_tensors(torch, batch)


@pytest.mark.parametrize("kind", [tuple, list])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool", "complex64"])
def test_plain_tensors_are_described_as_by_the_long_way(kind: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own = getattr(torch, dtype)
    batch = kind([torch.ones(3, 4).to(own), torch.tensor(1).to(own), torch.zeros(2, 1, 1, requires_grad=True)])
    found = [flat(batch) for _ in range(2)]
    assert all(found)
    monkeypatch.setattr(serialization, "_pack_tensors", lambda *_: None)
    long = content(serialization.pack(batch))
    assert [content(packed) for packed in found if packed] == [long, long]


def test_batches_of_other_shapes_dtypes_and_containers_have_descriptions_of_their_own() -> None:
    batches: list[Any] = [(torch.ones(2, 3),), (torch.ones(3, 2),), [torch.ones(2, 3)], (torch.ones(2, 3).int(),)]
    found = [serialization.read_schema(serialization.pack(batch).schema, 1 << 20) for batch in batches]
    assert [(schema.flat, schema.arrays[0].shape, schema.arrays[0].dtype) for schema in found] == [
        (tuple, (2, 3), "float32"),
        (tuple, (3, 2), "float32"),
        (list, (2, 3), "float32"),
        (tuple, (2, 3), "int32"),
    ]


class Own(torch.Tensor):
    """A user's kind of tensor."""


@pytest.mark.parametrize(
    "other",
    [
        torch.ones(4, 4)[:, 1],
        torch.ones(3, dtype=torch.complex64).conj(),
        torch.ones(3, dtype=torch.complex64).conj().imag,
        torch.ones(0),
        torch.ones(3).as_subclass(Own),
        7,
    ],
    ids=["not contiguous", "conjugate", "negative", "empty", "subclass", "number"],
)
def test_what_is_no_plain_tensor_takes_the_long_way_and_travels(other: Any) -> None:
    assert flat((torch.ones(2), other)) is None
    packed = serialization.pack((torch.ones(2), other))
    if isinstance(other, torch.Tensor):
        same = other.detach().contiguous().resolve_conj().resolve_neg().numpy().tobytes()
        assert b"".join(packed.parts[1:]) == same


@pytest.mark.parametrize("batch", [(), []])
def test_nothing_is_no_flat_batch(batch: Any) -> None:
    assert flat(batch) is None


def test_descriptions_that_are_kept_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serialization, "_FLAT", {})
    for size in range(1, 2 * serialization.MOST_SCHEMAS):
        serialization.pack((torch.ones(size),))
        assert len(serialization._FLAT) <= serialization.MOST_SCHEMAS
