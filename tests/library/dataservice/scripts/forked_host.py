"""What the scripts share that take from a data host of their own: a process beside theirs, at the port that is told."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

from dlc_runtime.dataservice import serve


@contextlib.contextmanager
def data_host(data: Any, **options: Any) -> Iterator[str]:
    """Its address; arguments are those of `serve`."""
    port = int(sys.argv[1])
    pid = os.fork()
    if not pid:
        serve(data, address="127.0.0.1", port=port, **options)
        os._exit(0)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
