"""Gives tests their engine and images: every test with an `image` argument runs once per selected image."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.reaper import RUN_VARIABLE, Reaper

DEFAULT_SELECTOR = "*-cpu-*"
PROCESS = Path(__file__).parent / "process"
# Files that take longest, longest first: a file is one worker's, and begun last it would be waited for alone.
LONGEST = (
    "test_userlands", "test_build", "test_tune_batch", "test_gpu_host_rehearsal", "test_pytorch_scripts",
    "test_compiler_jobs", "test_accounting", "test_compilers", "test_data_service_jobs", "test_documented_commands",
    "test_push", "test_library_in_the_image", "test_tensorflow_data_service_jobs", "test_examples", "test_run",
    "test_train_on_one_host", "test_horovod_jobs", "test_data_service_faults", "test_own_project", "test_ray_jobs",
    "test_torchrun_jobs", "test_mpi_jobs", "test_least_rights", "test_efa_sources", "test_stopped_jobs",
    "test_tensorflow_scripts", "test_group_jobs", "test_heterogeneous_jobs", "test_python_packages",
    "test_requirements_of_scripts",
)  # fmt: skip
reaper = pytest.StashKey[Reaper]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--image", action="append", metavar="GLOB", help=f"image ids; may be repeated (default: {DEFAULT_SELECTOR})"
    )
    parser.addoption(
        "--core-was-run-on", metavar="ID", help="leave out what is marked core, on this image and where there is none"
    )


def pytest_configure(config: pytest.Config) -> None:
    # A shell's background job inherits that Ctrl-C and Ctrl-\\ are ignored, nohup's that SIGHUP is; and so would every
    # process to which the tests send them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for signum in (signal.SIGQUIT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_DFL)
    if not hasattr(config, "workerinput"):
        os.environ[RUN_VARIABLE] = uuid.uuid4().hex[:12]  # its workers and all that they start inherit it
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


@pytest.hookimpl(tryfirst=True)  # before `-m` selects by what is marked here
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is about an image. Tests for which `--image` selects none are left out: nobody asked, so no skip."""
    for item in items:
        if "image" in getattr(item, "fixturenames", ()):
            item.add_marker("image")
        in_container = item.get_closest_marker("container") and not item.get_closest_marker("integration")
        if in_container or item.path.is_relative_to(PROCESS):
            item.add_marker("core")
    done = config.getoption("--core-was-run-on")
    left_out = {item for item in items if "NOTSET" in _parameters(item) or (done and _was_run(item, done))}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
    items[:] = sorted((item for item in items if item not in left_out), key=_turn)


def _parameters(item: pytest.Item) -> list[str]:
    """The parts of its name in brackets."""
    return str(getattr(getattr(item, "callspec", None), "id", "")).split("-")


def _was_run(item: pytest.Item, image: str) -> bool:
    """Whether `-m core --image IMAGE` runs this test."""
    if not item.get_closest_marker("core"):
        return False
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return bool(parameters.get("image", image) == image)


def _turn(item: pytest.Item) -> int:
    """The file's place in LONGEST; all others come after these, in the order that they had."""
    name = item.path.stem
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


def pytest_sessionstart(session: pytest.Session) -> None:
    """What cleans up after the run, even if it is killed."""
    if not hasattr(session.config, "workerinput") and not session.config.option.collectonly:
        temporary = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        session.config.stash[reaper] = Reaper(os.environ[RUN_VARIABLE], temporary)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Nothing of the run is left when it ends."""
    if (started := config.stash.get(reaper, None)) and (left := started.finish().strip()):
        print(f"removed what tests left behind:\n{left}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    """A failed assertion says first what was compared, then the output that explains it, which may be long."""
    error = call.excinfo.value if call.excinfo else None
    if isinstance(error, AssertionError) and error.args and isinstance(error.args[0], str):
        explained, separator, compared = error.args[0].rpartition("\nassert ")
        if separator:
            error.args = (f"assert {compared}\n{explained}", *error.args[1:])


@pytest.fixture(scope="session")
def engine() -> None:
    """A Docker engine that answers."""
    from dlc.core.errors import EngineError
    from harness.engine import connect

    try:
        connect()
    except EngineError as error:
        pytest.skip(f"no Docker engine can be had: {error}")


@pytest.fixture(scope="session")
def image(engine: None, request: pytest.FixtureRequest) -> Iterator[object]:
    """The built image (harness.images.Image) that this case is about."""
    from harness.engine import on_platform
    from harness.images import built_image

    found = built_image(request.param)
    with on_platform(found.variant.settings.platform):
        yield found
