"""Data hosts that are slow: their control processes have the time to start."""

from __future__ import annotations

import pytest

from dlc_runtime.dataservice.server import serve


class Pipe:
    """To a control process that says after so many looks that it listens."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def poll(self, _seconds: float) -> bool:
        self.looks -= 1
        return self.looks < 0

    def recv(self) -> None:
        """Nothing hinders it."""


@pytest.mark.parametrize(("looks", "listens"), [(3, True), (1000, False)])
def test_a_control_process_that_imports_its_libraries_for_minutes_is_waited_for(
    looks: int, listens: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve.Server.__new__(serve.Server)
    assert (server._unable(None, Pipe(looks)) is None) == listens
    assert caplog.messages[:3] == ["data service: no control process yet"] * 3
