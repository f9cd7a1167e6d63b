"""Gives tests their engine and images: every test with an `image` argument runs once per selected image."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

DEFAULT_SELECTOR = "*-cpu-*"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--image", action="append", metavar="GLOB", help=f"image ids; may be repeated (default: {DEFAULT_SELECTOR})"
    )


def pytest_configure(config: pytest.Config) -> None:
    # A shell's background job inherits that Ctrl-C and Ctrl-\\ are ignored, nohup's that SIGHUP is; and so would every
    # process to which the tests send them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for signum in (signal.SIGQUIT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_DFL)
    config.addinivalue_line("markers", "when(**conditions): only for images that are so, as `when` in compat.yml")
    config.addinivalue_line("markers", "image: set for every test that has an `image` argument")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One case per selected image that is as the test's `when` marks ask."""
    if "image" not in metafunc.fixturenames:
        return
    from harness.images import selected  # not at the top: unit tests need no buildspec

    conditions = [marker.kwargs for marker in metafunc.definition.iter_markers("when")]
    chosen = selected(metafunc.config.getoption("image") or [DEFAULT_SELECTOR], conditions)
    metafunc.parametrize("image", chosen, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is about an image. Tests for which `--image` selects none are left out: nobody asked, so no skip."""
    for item in items:
        if "image" in getattr(item, "fixturenames", ()):
            item.add_marker("image")
    left_out = [item for item in items if "NOTSET" in getattr(getattr(item, "callspec", None), "id", "").split("-")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def engine() -> Iterator[None]:
    """A Docker engine that answers; what the tests started there is gone afterwards."""
    from dlc.core.errors import EngineError
    from harness.engine import connect, remove_everything_of_this_run

    try:
        connect()
    except EngineError as error:
        pytest.skip(f"no Docker engine can be had: {error}")
    yield
    remove_everything_of_this_run()


@pytest.fixture(scope="session")
def image(engine: None, request: pytest.FixtureRequest) -> object:
    """The built image (harness.images.Image) that this case is about."""
    from harness.images import built_image

    return built_image(request.param)
