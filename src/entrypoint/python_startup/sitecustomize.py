"""Loaded by each Python of a job, from PYTHONPATH: SIGUSR1 prints the stacks of all its threads and ends nothing.

A handler that the user's code installs later, by signal.signal or faulthandler.register, takes this one's place.
A Python that used PyTorch's gloo ends when the last work of its threads is freed. torchrun tells its end in a
line, and an old one starts ranks with our program too.
"""

import _signal  # type: ignore[import-not-found]  # `signal` brings enum and re along: 4 ms in every Python of a job
import atexit
import faulthandler
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

# In /proc/PID/task/TID/stat, before the state
GLOO_THREAD = b"(pt_gloo_runloop) "
# A thread that still runs then does not end
GLOO_SECONDS = 2.0


def _register() -> None:
    # Ignored ones stay ignored
    if _signal.getsignal(_signal.SIGUSR1) == _signal.SIG_DFL:
        faulthandler.register(_signal.SIGUSR1, file=2, all_threads=True)


def _wait_for_gloo() -> None:
    """Let gloo's threads free their last work: it takes Python's lock.

    A thread that asks for the lock once Python has begun to end aborts the process: a job that trained well would end
    by SIGABRT. See pytorch/pytorch#179291; destroy_process_group does not help if a model keeps the group.
    PyTorch 2.13 does so and gives its threads names. 2.6 and 2.9 give none, and end well.
    """
    if "torch.distributed" not in sys.modules:
        return
    import time

    bound = time.monotonic() + GLOO_SECONDS
    # Looks in a row: a thread that waits for Python's lock sleeps too
    asleep = 0
    while asleep < 2 and time.monotonic() < bound:
        states = _gloo_states()
        if not states:
            return
        asleep = 0 if b"R" in states else asleep + 1
        # The lock is free meanwhile
        time.sleep(0.001)


def _gloo_states() -> "set[bytes]":
    """Return the states of gloo's threads as proc(5) names them: R runs or is about to, S sleeps."""
    states = set()
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/stat", "rb") as file:
                _, found, rest = file.read().partition(GLOO_THREAD)
        except OSError:  # it has ended
            continue
        if found:
            states.add(rest[:1])
    return states


def _adapt_torchrun() -> None:
    """Shorten its last words; that of PyTorch 1.10 (Python 3.9) starts ranks with sys.executable, not PYTHON_EXEC."""
    if not (sys.argv and sys.argv[0].endswith("/torchrun")):
        return
    import logging

    # SIGTERM raises in torchrun, also while it logs
    logging.raiseExceptions = False
    sys.excepthook = _tell_torchruns_end
    if sys.version_info < (3, 10) and "PYTHON_EXEC" in os.environ:
        sys.executable = os.environ["PYTHON_EXEC"]


def _tell_torchruns_end(kind: "type[BaseException]", error: BaseException, trace: "TracebackType | None") -> None:
    """Write a line if a rank failed or a signal came: torchrun's 40 would bury the rank's own error.

    The error of a rank with an error file (`@record`) may stand in torchrun's table alone.
    """
    said = str(error)
    if kind.__name__ not in ("ChildFailedError", "SignalException"):
        sys.__excepthook__(kind, error, trace)
        return
    cause = said[said.find("Root Cause") :]
    print("torchrun:", " ".join(cause.split("error_file")[0].split()) if "<N/A>" in cause else said, file=sys.stderr)


def _leave() -> None:
    """Make room for the sitecustomize that the user or the system may have."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if folder != here]
    own = sys.modules.pop(__name__, None)
    try:
        __import__("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
        if own is not None:
            sys.modules[__name__] = own


# Registered first, called last
atexit.register(_wait_for_gloo)
_register()
_adapt_torchrun()
_leave()
