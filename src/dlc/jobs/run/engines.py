"""The engine of a job: the one that answers, whether or not it can build."""

from __future__ import annotations

from dlc.core.errors import EngineError
from dlc.engine.connection import Engine, absence_error, advise_start, connect, find_engine
from dlc.engine.questions import ASK_SECONDS


def find_engine_for_job() -> Engine:
    """Return an engine that answers.

    `connect` would ask for buildx besides, which nothing here needs, and start one.
    """
    return find_engine(ASK_SECONDS) or connect()


def find_running_engine() -> Engine:
    """Return the engine that answers, for what only looks after jobs: none is started, and buildx is not needed.

    Raises EngineError if none answers.
    """
    if engine := find_engine(ASK_SECONDS):
        return engine
    raise EngineError(absence_error(), advise_start())
