"""The running container of each image that the tests of this folder ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.container import Container, running
from harness.images import Image


@pytest.fixture(scope="session")
def container(image: Image) -> Iterator[Container]:
    with running(image.ref) as started:
        yield started


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The size report: one line per image that was asked for its size."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "image size":
                terminalreporter.write_line(f"{name}: {value}")
