"""Arrow Flight: a stream of record batches with a column of images and a column of labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import batches
import numpy
import pyarrow
import torch
from pyarrow import flight


class Server(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(self, port: int, size: int) -> None:
        images, labels = batches.ready(size)
        column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(images.reshape(-1)), batches.PIXELS)
        self.batch = pyarrow.record_batch([column, pyarrow.array(labels)], ["image", "label"])
        super().__init__(f"grpc://127.0.0.1:{port}")  # it listens and answers from here on

    def do_get(self, _context: Any, _ticket: Any) -> Any:
        def stream() -> Iterator[Any]:
            while True:
                yield self.batch

        return flight.GeneratorStream(self.batch.schema, stream())


def take(port: int, _size: int) -> Iterator[Any]:
    reader = flight.connect(f"grpc://127.0.0.1:{port}").do_get(flight.Ticket(b""))
    while True:
        batch = reader.read_chunk().data
        image = numpy.asarray(batch.column(0).flatten()).reshape(-1, batches.PIXELS)
        yield torch.tensor(image), torch.tensor(numpy.asarray(batch.column(1)))


if __name__ == "__main__":
    batches.play(lambda port, size: Server(port, size).serve(), take)
