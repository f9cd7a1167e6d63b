"""The tests of `src/dlc_runtime`, run by the image's Python: it has the frameworks that the tool's own Python lacks."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from uv import find_uv_bin

from dlc.core.checkout import find_root
from dlc.core.process import run
from dlc.locks import indexes
from harness.engine import run_once
from harness.images import Image
from harness.user_scripts import brought

SECONDS = 1800.0  # for one file of tests; only a hang takes that long
pytestmark = [pytest.mark.integration, pytest.mark.timeout(SECONDS + 60)]

# The launcher of the image starts the same jobs in test_compiler_jobs.py and test_compiler_xla_jobs.py.
ELSEWHERE = {"test_launched.py"}
ROOM = find_root() / "tests/unit/runtime"
SHORT = {"cluster", "dataservice"}  # rooms; the others compile for minutes
# Files of these rooms: the loops of three frameworks; what *data_service_jobs.py and *_faults.py do with containers.
LONG = {"test_frameworks.py", "test_leases.py", "test_tensorflow_service.py"}


def case(file: Path) -> object:
    room = file.relative_to(ROOM).parts[0]
    name = f"{file.parent.name}/{file.stem.removeprefix('test_')}"
    short = room in SHORT and file.name not in LONG
    return pytest.param(file, id=name, marks=() if short else pytest.mark.long)


FILES = sorted(file for file in ROOM.glob("*/**/test_*.py") if file.name not in ELSEWHERE)
TENSORFLOW = [case(file) for file in FILES if "tensorflow" in str(file) or "in_frameworks" in file.name]
PYTORCH = [case(file) for file in FILES if "tensorflow" not in str(file)]
# pytest and what it needs stand behind the image's own packages, and no process that a test starts sees them.
RUN = "import sys; sys.path.append('/tools'); import pytest; sys.exit(pytest.main(sys.argv[1:]))"


INSTALL = "pip install --quiet --no-index --no-deps --no-compile --root-user-action=ignore /wheels/*.whl"
BROUGHT = ("lightning", "tlparse")  # what no image has and some tests are about
# Inductor's precompiled headers, which it puts nowhere else.
HEADERS = "/tmp/torchinductor_root/precompiled_headers"


@pytest.fixture(scope="session")
def compiled(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that the files share: compiling is what takes their time."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what scripts bring; empty where no package index is reached."""
    folder = tmp_path_factory.mktemp("wheels")
    brought(folder)
    return folder


@pytest.fixture(scope="session")
def tools(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pytest and what it needs, for the image's Python: some of it is compiled."""
    python = image.variant.settings.python
    if python == f"{sys.version_info.major}.{sys.version_info.minor}":
        return Path(pytest.__file__).parents[1]
    folder = tmp_path_factory.mktemp("tools")
    argv = [find_uv_bin(), "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--python-version", python]
    run([*argv, "--target", str(folder), "-r", str(find_root() / "requirements.lock")], env=indexes.environment())
    return folder


def assert_passes(image: Image, file: Path, report: Path, compiled: Path, wheels: Path, tools: Path) -> None:
    root = find_root()
    brings = any(wheels.iterdir()) and any(name in file.read_text() for name in BROUGHT)
    command = f'{INSTALL if brings else "true"} && exec python -c "$0" "$@"'
    done = run_once(
        image.ref, "sh", "-c", command, RUN, str(file.relative_to(root)), "--junit-xml=/report/tests.xml",
        "-p", "no:cacheprovider", "-p", "no:xdist",
        options=(
            # For the tests that mount a cache read-only and full, and those that attach a packet filter.
            "--cap-add=SYS_ADMIN", "--cap-add=NET_ADMIN", "--security-opt=apparmor=unconfined",
            "--network=none", "--hostname=localhost",  # any other name would have no address there, and torchrun asks
            "--shm-size=1g", "--workdir=/repository",
            f"--volume={root}:/repository:ro", f"--volume={tools}:/tools:ro",
            f"--volume={report}:/report", f"--volume={wheels}:/wheels:ro",
            f"--volume={compiled}/code:/compiled", "--env=DLC_TEST_COMPILE_CACHE=/compiled",
            f"--volume={compiled}/headers:{HEADERS}",
            "--env=HYPOTHESIS_STORAGE_DIRECTORY=/tmp/hypothesis", "--env=PYTHONDONTWRITEBYTECODE=1",
            # As the launcher has it where no job asks for XLA: with torch_xla in the image a Trainer would go to xla:0.
            *(["--env=USE_TORCH_XLA=0"] if "dataservice" in file.parts else []),
        ),
        seconds=SECONDS,
    )  # fmt: skip
    said = done.stdout[-20_000:] + done.stderr[-2000:]
    assert done.returncode == 0, said
    cases = list(ElementTree.parse(report / "tests.xml").iter("testcase"))
    assert any(case.find("skipped") is None for case in cases), said


@pytest.mark.when(framework="pytorch", version=">=2.6")
@pytest.mark.parametrize("file", PYTORCH)
def test_the_librarys_own_tests_pass_beside_pytorch(
    image: Image, file: Path, tmp_path: Path, compiled: Path, wheels: Path, tools: Path
) -> None:
    assert_passes(image, file, tmp_path, compiled, wheels, tools)


@pytest.mark.when(framework="tensorflow", version=">=2.16")
@pytest.mark.parametrize("file", TENSORFLOW)
def test_the_librarys_own_tests_pass_beside_tensorflow(
    image: Image, file: Path, tmp_path: Path, compiled: Path, wheels: Path, tools: Path
) -> None:
    assert_passes(image, file, tmp_path, compiled, wheels, tools)
