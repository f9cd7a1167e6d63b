"""tests/library, run by the image's Python: it has the frameworks that the tool's own Python lacks.

What takes minutes is a case for each file; all other files of a room are one case: each costs a container and a pytest.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from itertools import groupby
from pathlib import Path

import pytest
from uv import find_uv_bin

from dlc.buildspec.locks import resolve
from dlc.core.checkout import find_root
from dlc.core.process import run_program
from harness.engine import run_once
from harness.images import Image
from harness.user_scripts import brought

SECONDS = 1800.0  # for one case; only a hang takes that long
pytestmark = [pytest.mark.integration, pytest.mark.timeout(SECONDS + 60)]

# The launcher of the image starts the same jobs in test_compiler_jobs.py and test_compiler_xla_jobs.py.
ELSEWHERE = {"test_launched.py"}
ROOM = find_root() / "tests/library"
# What takes minutes: the loops of three frameworks, what *data_service_jobs.py and *_faults.py do with containers, and
# all that compiles or measures with a framework.
LONG_ROOMS = {"compiler", "profile", "scaling"}
LONG = {"test_frameworks.py", "test_first_come.py", "test_data_host_strangers.py", "test_tensorflow_service.py"}
SHORT = {  # of those rooms: no framework, but for the last one
    "test_cache_on_disks.py", "test_page_from_folder.py", "test_xla_imports.py", "test_profile_processes.py",
    "test_known_jobs.py", "test_largest_batch.py",
    "test_xla_refuses.py",  # the core of what test_xla_fault_matrix.py proves
}  # fmt: skip
# What `make test` runs: the comparison of compiled code with eager.
CORE = {"test_comparison_core.py", "test_not_finite.py", "test_samples.py"}
FILES = sorted(file for file in ROOM.glob("*/**/test_*.py") if file.name not in ELSEWHERE)


def room(file: Path) -> str:
    return file.relative_to(ROOM).parts[0]


def is_long(file: Path) -> bool:
    return file.name in LONG or (room(file) in LONG_ROOMS and file.name not in SHORT)


def cases(files: list[Path]) -> list[object]:
    """A case for the short files of each room, and one for each long file."""
    short = groupby((file for file in files if not is_long(file) and file.name not in CORE), room)
    rooms = [pytest.param(list(group), id=name) for name, group in short]
    if core := [file for file in files if file.name in CORE]:
        rooms.append(pytest.param(core, id="core", marks=pytest.mark.core))
    long = [file for file in files if is_long(file) and file.name not in CORE]
    names = {file: f"{file.parent.name}/{file.stem.removeprefix('test_')}" for file in long}
    return rooms + [pytest.param([file], id=names[file], marks=pytest.mark.long) for file in long]


TENSORFLOW = cases([file for file in FILES if "tensorflow" in str(file) or "in_frameworks" in file.name])
PYTORCH = cases([file for file in FILES if "tensorflow" not in str(file)])
# pytest and what it needs stand behind the image's own packages, and no process that a test starts sees them.
RUN = "import sys; sys.path.append('/tools'); import pytest; sys.exit(pytest.main(sys.argv[1:]))"


INSTALL = "pip install --quiet --no-index --no-deps --no-compile --root-user-action=ignore /wheels/*.whl"
BROUGHT = ("lightning", "tlparse")  # what no image has and some tests are about
# Inductor's precompiled headers, which it puts nowhere else.
HEADERS = "/tmp/torchinductor_root/precompiled_headers"


@pytest.fixture(scope="session")
def compiled(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that the cases share: compiling is what takes their time."""
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
    run_program(
        [*argv, "--target", str(folder), "-r", str(find_root() / "requirements-dev.lock")],
        env=resolve.make_uv_environment(),
    )
    return folder


def assert_pass(image: Image, files: list[Path], report: Path, compiled: Path, wheels: Path, tools: Path) -> None:
    root = find_root()
    brings = any(wheels.iterdir()) and any(name in file.read_text() for name in BROUGHT for file in files)
    command = f'{INSTALL if brings else "true"} && exec python -c "$0" "$@"'
    done = run_once(
        image.ref, "sh", "-c", command, RUN, *(str(file.relative_to(root)) for file in files),
        "--junit-xml=/report/tests.xml", "-p", "no:cacheprovider", "-p", "no:xdist",
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
            *(["--env=USE_TORCH_XLA=0"] if room(files[0]) == "dataservice" else []),
            "--env=TF_USE_LEGACY_KERAS=1",  # and where no script imports keras
        ),
        seconds=SECONDS,
    )  # fmt: skip
    said = done.stdout[-20_000:] + done.stderr[-2000:]
    assert done.returncode == 0, said
    found = ElementTree.parse(report / "tests.xml").iter("testcase")
    ran = ".".join(case.attrib["classname"] for case in found if case.find("skipped") is None)
    assert [file.name for file in files if file.stem not in ran.split(".")] == [], f"all of it was skipped: {said}"


@pytest.mark.when(framework="pytorch", version=">=2.6")
@pytest.mark.parametrize("files", PYTORCH)
def test_the_librarys_own_tests_pass_beside_pytorch(
    image: Image, files: list[Path], tmp_path: Path, compiled: Path, wheels: Path, tools: Path
) -> None:
    assert_pass(image, files, tmp_path, compiled, wheels, tools)


@pytest.mark.when(framework="tensorflow", version=">=2.16")
@pytest.mark.parametrize("files", TENSORFLOW)
def test_the_librarys_own_tests_pass_beside_tensorflow(
    image: Image, files: list[Path], tmp_path: Path, compiled: Path, wheels: Path, tools: Path
) -> None:
    assert_pass(image, files, tmp_path, compiled, wheels, tools)
