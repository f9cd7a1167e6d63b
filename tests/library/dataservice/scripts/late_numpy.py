"""Makes one batch twice, of a dataset that imports numpy with its first sample; prints both as JSON."""

from __future__ import annotations

import json

from dlc_runtime.dataservice.server import batch_source


class Late:
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> float:
        import numpy

        return float(numpy.random.random())


if __name__ == "__main__":
    maker = batch_source.BatchMaker(batch_source.make_source(Late(), list, 2, False, False, 0, None))
    print(json.dumps([maker.batch(0, 1, maker.indices(0, 1)) for _ in range(2)]))
