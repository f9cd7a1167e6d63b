"""Sends every kind of batch through a real service, compares what comes out and prints JSON."""

from __future__ import annotations

import collections
import json
import math
from typing import Any

import numpy
import torch
from forked_host import data_host

from dlc_runtime.dataservice import RemoteLoader
from dlc_runtime.dataservice.client.device_transfer import move
from dlc_runtime.dataservice.errors import UnsupportedBatchError
from dlc_runtime.dataservice.wire import serialization
from dlc_runtime.dataservice.wire.serialization import TORCH_DTYPES

Pair = collections.namedtuple("Pair", ["image", "label"])
NAMES = [name for name in TORCH_DTYPES if hasattr(torch, name)]


def of_dtype(name: str, *shape: int) -> torch.Tensor:
    """Any bits, but as a tensor that may hold them."""
    dtype = getattr(torch, name)
    if dtype is torch.bool:
        return torch.rand(shape) > 0.5
    count = TORCH_DTYPES[name] * math.prod(shape)
    return torch.randint(0, 100, (count,), dtype=torch.uint8).view(dtype).view(shape)


def batches() -> list[Any]:
    torch.manual_seed(1)
    image = torch.rand(4, 3, 8, 8)
    return [
        image,
        (image, torch.arange(4)),
        [image, [torch.arange(3), ("a", 1.5)]],
        {"x": image, "name": ["ä", "b\ud800", ""], "n": 3, "none": None, "flag": True, "big": 1 << 70},
        Pair(image, {"deep": [[(image,)], [torch.zeros(0, 3)]]}),
        {name: of_dtype(name, 2, 3) for name in NAMES},
        [of_dtype(name) for name in NAMES],
        image.transpose(1, 3),
        image.expand(2, 4, 3, 8, 8)[:, ::2],
        torch.conj(torch.rand(3, dtype=torch.complex64)),
        torch.rand(3, requires_grad=True),
        {"np": numpy.arange(6, dtype=">i2").reshape(2, 3)[:, ::2], "s": numpy.float32(2)},
        {"text": numpy.array(["ab", "c"])},
        {"when": numpy.array(["2026-01-01"], dtype="datetime64[D]"), "empty": numpy.zeros((0, 2))},
        [1 - 2j, {"deep": complex("-0-infj")}, bytearray(b"may change"), bytearray()],
        {1: b"bytes", False: b"", "float": [float("inf"), -0.0]},
        [torch.full((size,), size) for size in range(20)],
        [torch.tensor(number) for number in range(1500)],
        [],
        {},
        (),
        "only text",
        torch.nn.utils.rnn.pack_sequence([torch.rand(2, 3), torch.rand(4, 3)], enforce_sorted=False),
    ]


class Kinds(torch.utils.data.Dataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return len(batches())

    def __getitem__(self, index: int) -> Any:
        return batches()[index]


def differences(one: Any, other: Any, place: str = "batch") -> list[str]:
    """Where two batches are not the same."""
    if isinstance(one, torch.Tensor):
        same = isinstance(other, torch.Tensor) and one.dtype == other.dtype and one.shape == other.shape
        return [] if same and bits(one) == bits(other) else [f"{place}: {one!r} {other!r}"]
    if isinstance(one, (numpy.ndarray, numpy.generic)):
        same = type(one) is type(other) and one.dtype == other.dtype and one.shape == other.shape
        return [] if same and one.tobytes() == other.tobytes() else [f"{place}: {one!r} {other!r}"]
    if isinstance(one, dict):
        if list(one) != list(other) or type(other) is not dict:
            return [f"{place}: keys {list(one)} {list(other)}"]
        return [found for key in one for found in differences(one[key], other[key], f"{place}[{key!r}]")]
    if isinstance(one, (list, tuple)):
        if kind_of(one) != kind_of(other) or len(one) != len(other):
            return [f"{place}: {kind_of(one)} {kind_of(other)}"]
        return [
            found
            for at, pair in enumerate(zip(one, other, strict=True))
            for found in differences(*pair, f"{place}[{at}]")
        ]
    return [] if type(one) is type(other) and repr(one) == repr(other) else [f"{place}: {one!r} {other!r}"]


def kind_of(value: Any) -> tuple[str, Any]:
    return type(value).__name__, getattr(value, "_fields", None)


def bits(tensor: torch.Tensor) -> bytes:
    tensor = tensor.detach().resolve_conj().contiguous()
    return bytes(tensor.view(-1).view(torch.uint8).numpy().tobytes()) if tensor.numel() else b""


def kept_batches_do_not_change(address: str) -> list[str]:
    """Batches and views of them that the user keeps are not written over by later ones."""
    with RemoteLoader([address], prefetch=2) as loader:
        kept = []
        for _ in range(15):
            for batch in loader:
                if isinstance(batch, tuple) and len(batch) == 2:
                    kept.append((batch[0][1, 2], bits(batch[0][1, 2])))
    return [f"view {at}" for at, (view, before) in enumerate(kept) if bits(view) != before] + ([] if kept else ["none"])


def refusal_of(batch: Any) -> str:
    try:
        serialization.pack(batch)
    except UnsupportedBatchError as error:
        return str(error)
    return ""


def main() -> None:
    with data_host(Kinds(), batch_size=None, workers=1) as address:
        with RemoteLoader([address], patience=120) as loader:
            found = list(loader)
        wrong = [
            f"{at}: {text}"
            for at, pair in enumerate(zip(batches(), found, strict=False))
            for text in differences(*pair)
        ]
        told = {"count": len(found), "wrong": wrong, "kept": kept_batches_do_not_change(address), "dtypes": NAMES}
    told["lstm"] = list(torch.nn.LSTM(3, 2)(found[-1])[0].data.shape)
    told["moved"] = type(move(found[-1], "meta")) is torch.nn.utils.rnn.PackedSequence
    ones = [torch.ones(1), torch.ones(2)]
    told["masked"] = refusal_of({"a": numpy.ma.array([1, 2], mask=[0, 1])})
    told["nested"] = refusal_of({"b": torch.nested.nested_tensor(ones)})
    print(json.dumps(told))


if __name__ == "__main__":
    main()
