"""Servers of tf.data.service that are asked for: no answer, one answer, no TensorFlow. Needs no TensorFlow."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest
from service_runs import SOURCES

from dlc_runtime.dataservice.errors import ServersLostError
from dlc_runtime.dataservice.tensorflow import endpoints
from harness.ports import free_port


def test_a_dispatcher_that_does_not_answer_is_named_after_the_patience() -> None:
    where = f"127.0.0.1:{free_port()}"
    with pytest.raises(ServersLostError, match=rf"the dispatcher cannot be reached within 0.1 s: {where}: .*refused"):
        endpoints.wait_for_one([where], "the dispatcher", 0.1)


def test_one_worker_that_answers_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as open_:
        where = f"127.0.0.1:{open_.getsockname()[1]}"
        endpoints.wait_for_one([f"127.0.0.1:{free_port()}", where], "any worker", 60)


def test_without_tensorflow_both_sides_say_so() -> None:
    """In a Python that sees nothing but its own library."""
    for call in ("distribute(None)", "serve()"):
        code = f"import sys; sys.path.insert(0, {str(SOURCES)!r})\n" + (
            "from dlc_runtime.dataservice import tensorflow as t\n"
            f"try: t.{call}\nexcept ImportError as error: print(type(error).__name__, error)"
        )
        said = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
        assert said.stdout.startswith("MissingPackageError tf.data.service is a part of TensorFlow"), said
