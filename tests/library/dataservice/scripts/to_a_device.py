"""Serves nested batches and takes them with device=; prints JSON. "meta" is a device that every torch has."""

from __future__ import annotations

import collections
import json
from typing import Any

import numpy
import torch
from forked_host import data_host

from dlc_runtime.dataservice import RemoteLoader
from dlc_runtime.dataservice.errors import SettingError

Pair = collections.namedtuple("Pair", ["image", "name"])


class Nested(torch.utils.data.Dataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        return {"pair": Pair(torch.full((2, 2), index), "n"), "list": [torch.ones(1), (torch.zeros(0),)], "n": index}


def described(node: Any) -> Any:
    """Each tensor's device and shape, in the same structure."""
    if isinstance(node, torch.Tensor):
        return [node.device.type, list(node.shape)]
    if isinstance(node, dict):
        return {key: described(item) for key, item in node.items()}
    if isinstance(node, (list, tuple)):
        return [type(node).__name__, *map(described, node)]
    return type(node).__name__ if isinstance(node, numpy.ndarray) else node


def refused(address: str, device: Any) -> str:
    try:
        RemoteLoader([address], device=device)
    except SettingError as error:
        return str(error)
    return ""


def main() -> None:
    with data_host(Nested(), batch_size=None, workers=1) as address:
        found: dict[str, Any] = {}
        for device in (None, "cpu", "meta"):
            with RemoteLoader([address], device=device, patience=240) as loader:
                batches = list(loader)
            found[str(device)] = [described(batch) for batch in batches]
        found["refused"] = {device: refused(address, device) for device in ("cuda:99", "nonsense")}
        print(json.dumps(found))


if __name__ == "__main__":
    main()
