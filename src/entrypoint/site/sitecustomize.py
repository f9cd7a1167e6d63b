"""Loaded by every Python of a job, from PYTHONPATH: SIGUSR1 prints the stacks of all its threads and ends nothing.

A handler that the user's code installs later, by signal.signal or faulthandler.register, takes this one's place.
"""

import _signal  # type: ignore[import-not-found]  # `signal` brings enum and re along: 4 ms in every Python of a job
import faulthandler
import os
import sys


def _register() -> None:
    if _signal.getsignal(_signal.SIGUSR1) == _signal.SIG_DFL:  # ignored ones stay ignored
        faulthandler.register(_signal.SIGUSR1, file=2, all_threads=True)


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


_register()
_leave()
