"""Gives tests their engine and images: every test with an `image` argument runs once per selected image."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

DEFAULT_SELECTOR = "*-cpu-*"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--image", default=DEFAULT_SELECTOR, help="glob over image ids (default: %(default)s)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "framework(name): only for images of this framework")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One case per selected image; with `framework(name)` only for the images of that framework."""
    if "image" not in metafunc.fixturenames:
        return
    from harness.images import frameworks  # not at the top: unit tests need no buildspec

    wanted = {marker.args[0] for marker in metafunc.definition.iter_markers("framework")}
    found = frameworks(metafunc.config.getoption("image"))
    chosen = [identifier for identifier, framework in found.items() if not wanted or framework in wanted]
    metafunc.parametrize("image", chosen, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests for which `--image` selects no image: they are not asked for, which is no reason to skip."""
    left_out = [item for item in items if getattr(getattr(item, "callspec", None), "id", "") == "NOTSET"]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def engine() -> Iterator[None]:
    """A Docker engine that answers; what the tests started there is gone afterwards."""
    from dlc.errors import EngineError
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
