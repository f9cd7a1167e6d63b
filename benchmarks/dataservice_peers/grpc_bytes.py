"""The protocol of the public example: a stream of messages, each with a batch's images and labels as bytes.

With DLC_DATA_TLS=1 over grpcio's own mutual TLS, with certificates of the kind that the data service makes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from concurrent import futures
from typing import Any

import batches
import grpc
import numpy
import torch

from dlc_runtime.dataservice.wire import tls

METHOD = "/DatasetFeed/get_examples"
TOKEN = b"benchmark"
OPTIONS = [("grpc.max_send_message_length", 200 << 20), ("grpc.max_receive_message_length", 200 << 20)]


def joined(image: bytes, label: bytes) -> bytes:
    """As protobuf joins the fields of a message: one copy."""
    return len(image).to_bytes(8, "little") + image + label


def serve(port: int, size: int) -> None:
    serve_batches(port, itertools.repeat(batches.ready(size)))


def serve_batches(port: int, made: Iterable[Any], address: str = "127.0.0.1") -> None:
    """Each of them, images and labels as numpy arrays, to one consumer."""

    def stream(_request: bytes, _context: Any) -> Iterator[bytes]:
        for images, labels in made:
            yield joined(images.tobytes(), labels.tobytes())

    server = grpc.server(futures.ThreadPoolExecutor(4), options=OPTIONS)
    handler = grpc.method_handlers_generic_handler(
        "DatasetFeed", {"get_examples": grpc.unary_stream_rpc_method_handler(stream)}
    )
    server.add_generic_rpc_handlers((handler,))
    own = tls.enabled_identity(TOKEN)
    if own is None:
        server.add_insecure_port(f"{address}:{port}")
    else:
        pair = [(own.key, own.certificate)]
        server.add_secure_port(f"{address}:{port}", grpc.ssl_server_credentials(pair, own.authority, True))
    server.start()
    server.wait_for_termination()


def take(port: int, _size: int, address: str = "127.0.0.1") -> Iterator[Any]:
    own = tls.enabled_identity(TOKEN)
    if own is None:
        channel = grpc.insecure_channel(f"{address}:{port}", OPTIONS)
    else:
        credentials = grpc.ssl_channel_credentials(own.authority, own.key, own.certificate)
        named = [*OPTIONS, ("grpc.ssl_target_name_override", tls.NAME)]
        channel = grpc.secure_channel(f"{address}:{port}", credentials, named)
    grpc.channel_ready_future(channel).result(60)
    for message in channel.unary_stream(METHOD)(b""):
        size = int.from_bytes(message[:8], "little")
        image = numpy.frombuffer(message, numpy.float32, size // 4, 8).reshape(-1, batches.PIXELS)
        yield torch.tensor(image), torch.tensor(numpy.frombuffer(message, numpy.int64, -1, 8 + size))


if __name__ == "__main__":
    batches.play(serve, take)
