"""Gives the calling process's output a prefix on every line, for a rank that torchrun or mpirun has started."""

from __future__ import annotations

import os
import signal

from launch.supervision.output import Console, Stream

IDLE = 3600.0  # seconds; only output and the end of it matter here
FINISH_BOUND = 5.0  # seconds for a slow reader at the end


def redirect(prefix: str) -> None:
    """Point stdout and stderr of this process at a new process that prefixes their lines and passes them on.

    The caller goes on to become the user's program: same pid, so that signals and the exit code take no detour. The
    new process is no child of it, so that the program finds no child that it has not made. It lives as long as anything
    that writes to the two pipes.
    """
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            os.close(out_write)
            os.close(err_write)
            _carry(out_read, err_read, prefix.encode())
        os._exit(0)
    os.waitpid(child, 0)
    for read_end, write_end, target in ((out_read, out_write, 1), (err_read, err_write, 2)):
        os.close(read_end)
        os.dup2(write_end, target)
        os.close(write_end)


def _carry(stdout: int, stderr: int, prefix: bytes) -> None:
    """Carry both streams to their ends. A stop request is for the program; what it still prints is carried too."""
    os.setsid()  # not in the rank's process group, which torchrun and mpirun signal as a whole
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    console = Console([])
    streams = [Stream(stdout, console.stdout, prefix), Stream(stderr, console.stderr, prefix)]
    for stream in streams:
        console.add(stream)
    while console.is_open:
        console.turn(IDLE)
    console.finish(FINISH_BOUND)
