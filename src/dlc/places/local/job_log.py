"""The lines of a job that runs: from the file of a job in the background, else from its containers."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import TextIO

from dlc.engine.docker_client import Engine
from dlc.job.host_log import HostLog
from dlc.places.local.known_jobs import ASK_AGAIN_SECONDS, is_held

# Characters that are read at once.
CHUNK = 1 << 16


def print_log(path: Path, claim: Path | None, out: TextIO) -> None:
    """Print a log; with a claim, go on until nobody holds that and all is printed."""
    with path.open(errors="replace", newline="") as log:
        while True:
            # Asked before the lines are read: all that the job has printed is read after its end.
            runs = claim is not None and is_held(claim)
            while text := log.read(CHUNK):
                out.write(text)
                out.flush()
            if not runs:
                return
            time.sleep(ASK_AGAIN_SECONDS)


def print_containers(engine: Engine, job_id: str, hosts: Sequence[str], *, follow: bool) -> None:
    """Print what the containers of a job have said, as `dlc run` names them; with `follow`, until all have ended."""
    log = HostLog(len(hosts), sys.stdout)
    takers = {host: log.taker(host) for host in hosts}
    words = ("logs", "--follow") if follow else ("logs",)
    # None: the host has ended.
    lines: Queue[tuple[str, str | None]] = Queue()

    def read_host(host: str) -> None:
        try:
            engine.docker_lines(*words, f"dlc-{job_id}-{host}", on_line=lambda line: lines.put((host, line)))
        finally:
            lines.put((host, None))

    # One after the other, unless they are followed.
    for together in [hosts] if follow else [[host] for host in hosts]:
        for host in together:
            Thread(target=read_host, args=(host,), daemon=True).start()
        left = set(together)
        while left:
            host, line = lines.get()
            if line is None:
                left.discard(host)
            else:
                takers[host](line)
