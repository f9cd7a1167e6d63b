"""A data host for the frameworks' training loops: rows that say which they are; arguments of serve as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from dlc_runtime.dataservice import serve


class Rows(torch.utils.data.Dataset):  # type: ignore[misc]
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return {"x": torch.full((4,), index / self.count), "labels": torch.tensor(float(index)), "row": index}


def main() -> None:
    name, count, options = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    serve({"Rows": Rows}[name](count), address="127.0.0.1", **options)


if __name__ == "__main__":
    main()
