"""The dlc command as a process: exit codes, closed streams, locales, what it imports, and what asks an engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from dlc.__main__ import main
from dlc.cli import PLUMBING, VERBS
from dlc.core.checkout import find_root
from dlc.core.errors import DiskError, InternalError, SelectorError, UsageError

ROOT = Path(__file__).parents[3]
TORCH = "pytorch-2.13-training-cpu-py311"
# Packages that cost more than `dlc plan` may take in all, or that it has no business with.
HEAVY = ("rich", "uv", "asyncio", "http", "email.mime", "dlc.engine", "dlc.core.process", "dlc.image_build.host_inputs")


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def dlc(*argv: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dlc", *argv]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")


@pytest.mark.usefixtures("no_engine")
def test_list_prints_a_line_or_an_object_per_image(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "pytorch-*"]) == 0
    assert TORCH in capsys.readouterr().out
    assert main(["list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    row = next(row for row in rows if row["id"] == TORCH)
    assert row["ref"] == "dlc/pytorch:2.13-training-cpu-py311"
    assert row["os"] == "bookworm"


@pytest.mark.usefixtures("no_engine")
def test_list_needs_no_engine_and_then_knows_of_no_built_image(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", TORCH]) == 0
    assert "DIGEST" not in capsys.readouterr().out
    assert main(["list", TORCH, "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["size"], row["digest"], row["created"]) == (None, None, None)


def test_the_process_exits_with_the_code_of_its_error_and_shows_no_traceback() -> None:
    done = dlc("list", "nothing-*")
    assert done.returncode == SelectorError.exit_code
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_reader_that_had_enough_is_no_error() -> None:
    command = f"{sys.executable} -m dlc plan --json | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, without_warnings(done.stderr)) == (0, "")


def without_warnings(stderr: str) -> str:
    """What a plan says besides that images are unsupported, or soon will be."""
    return "".join(line for line in stderr.splitlines(keepends=True) if not line.startswith("dlc: warning: "))


def test_a_full_disk_is_an_error_with_its_own_code() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "dlc", "plan"],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    expected = (DiskError.exit_code, "dlc: output: No space left on device\n")
    assert (done.returncode, without_warnings(done.stderr)) == expected


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", ">&- 2>&- <&-"])
def test_a_closed_stdout_is_a_wrong_command_line_and_no_traceback(closed: str) -> None:
    command = f"{sys.executable} -m dlc plan {closed}"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert done.returncode == UsageError.exit_code
    assert "Traceback" not in done.stderr
    assert ("stdout is closed" in done.stderr) is ("2>&-" not in closed)


@pytest.mark.parametrize("closed", ["2>&-", "<&-", "2>&- <&-"])
def test_other_closed_streams_do_no_harm(closed: str) -> None:
    command = f"{sys.executable} -m dlc plan --json {closed}"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0
    assert json.loads(done.stdout)["targets"]


def failing(variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    program = "import sys, dlc.cli, dlc.__main__ as m; dlc.cli.run = lambda argv: {}['absent']; sys.exit(m.main([]))"
    environment = {**os.environ, **variables}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)


def test_a_fault_of_dlc_is_one_line_with_the_place_and_a_code_of_its_own() -> None:
    done = failing({"DLC_DEBUG": ""})
    assert done.returncode == InternalError.exit_code
    assert done.stderr.startswith("dlc: internal error: KeyError: 'absent' (<string>:1)")
    assert "DLC_DEBUG=1" in done.stderr
    assert "Traceback" not in done.stderr


def test_dlc_debug_shows_the_traceback_of_a_fault() -> None:
    assert "Traceback" in failing({"DLC_DEBUG": "1"}).stderr


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "buildspec", tmp_path / "buildspec")
    (tmp_path / "docs").write_text("a file where a folder should be")
    done = dlc("schema", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, f"dlc: {tmp_path}/docs/clusters.md: Not a directory\n")


# Verb -> the arguments without which it is no command line at all.
NEEDS_A_CHECKOUT = {
    "list": [], "show": [TORCH], "plan": [], "lock": ["*"], "update": ["debian"], "build": [TORCH],
    "test": ["*"], "size": [TORCH], "sbom": [TORCH], "diff": [TORCH, TORCH], "docs": [], "scan": [TORCH], "schema": [],
    "push": [TORCH, "--to", "localhost:1"], "export": [TORCH, "folder"], "verify-reproducible": [TORCH],
    "advise": ["--measured", "p4d.24xlarge=192"], "ci": ["github"],
    "run": [TORCH, "train.py"], "tune-batch": ["--hp-name", "batch", TORCH, "train.py"],
}  # fmt: skip


@pytest.mark.parametrize("verb", [verb for verb, words in NEEDS_A_CHECKOUT.items() if {TORCH, "*"} & {*words}])
def test_a_name_that_no_image_has_is_said_before_an_engine_is_looked_for(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there is none, one would be installed first."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    words = ["nothing-9" if word in (TORCH, "*") else word for word in NEEDS_A_CHECKOUT[verb]]
    assert main([verb, *words]) == SelectorError.exit_code
    assert "nothing-9: no such image" in capsys.readouterr().err


# These read the images of this dlc's own checkout where there is no other, and write nothing there.
IN_ANY_FOLDER = ("list", "show", "plan", "size", "sbom", "scan", "advise", "profile", "run", "tune-batch", "shell",
                 "init", "build", "test", "diff", "push", "verify", "export", "verify-reproducible",
                 "submit", "ci", "promote", "prune", "site")  # fmt: skip
WITHOUT_IMAGES = ("engine", "doctor", "packages", "lint", "ps", "logs", "stop", "exec", "clean", "completion")
# What `lock` says depends on where this dlc is from: test_wheel.py has it.
WITHOUT_A_CHECKOUT = (*IN_ANY_FOLDER, *WITHOUT_IMAGES, "lock")


@pytest.mark.parametrize("verb", [verb for verb in (*VERBS, *PLUMBING) if verb not in WITHOUT_A_CHECKOUT])
def test_outside_a_checkout_nothing_is_read_or_written(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([verb, *NEEDS_A_CHECKOUT.get(verb, [])]) == UsageError.exit_code
    assert f"{tmp_path}: expected buildspec/defaults.yml" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_engine")
@pytest.mark.parametrize(
    ("verb", "expected"),
    [("list", TORCH), ("show", "base.image"), ("plan", TORCH), ("advise", "p4d.24xlarge")],
)
def test_what_only_reads_works_in_any_folder(
    verb: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([verb, *NEEDS_A_CHECKOUT[verb]]) == 0
    assert expected in capsys.readouterr().out
    assert [path for path in tmp_path.iterdir() if path.name != "nobody.sock"] == []


@pytest.mark.parametrize(
    ("verb", "needed"), [("plan", ()), ("list", ("dlc.engine", "dlc.core.process"))], ids=["plan", "list"]
)
def test_planning_imports_nothing_that_it_does_not_need(verb: str, needed: tuple[str, ...]) -> None:
    program = f"import sys; from dlc.__main__ import main; main([{verb!r}]); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    loaded = set(done.stderr.split())
    assert "dlc.buildspec.matrix" in loaded
    assert sorted(loaded & set(HEAVY) - set(needed)) == []


def check(**variables: str) -> tuple[int, str]:
    """Exit code and messages of `dlc docs --check`."""
    done = subprocess.run(
        [sys.executable, "-m", "dlc", "docs", "--check"], cwd=find_root(), capture_output=True, text=True, timeout=60,
        env={**os.environ, **variables},
    )  # fmt: skip
    return done.returncode, done.stderr


def test_the_readme_is_read_as_utf_8_in_every_locale() -> None:
    """It has an arrow."""
    assert check(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0") == check(PYTHONUTF8="1")


def end_without_reader(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run dlc, whose stdout is a pipe that nobody reads; each line is written at once."""
    reading, writing = os.pipe()
    os.close(reading)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with os.fdopen(writing, "w") as output:
        return subprocess.run(
            [sys.executable, "-m", "dlc", *words], cwd=folder, env=environment, stdout=output, stderr=subprocess.PIPE,
            text=True, timeout=60,
        )  # fmt: skip


def test_work_that_a_reader_ends_before_it_is_done_is_no_success(tmp_path: Path) -> None:
    job = tmp_path / "dlc-jobs/20261120-093000-0a1b2c"
    job.mkdir(parents=True)
    (job / "log").write_text("a line\n")
    done = end_without_reader(["clean", "--jobs", "--yes"], tmp_path)
    assert (done.returncode, done.stderr) == (130, "dlc: interrupted: nobody reads its output any more\n")
    assert job.exists()


def test_what_a_verb_found_stays_its_exit_code_if_nobody_reads_it() -> None:
    # What is printed is written at the end.
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    program = (
        "import sys, dlc.cli; from dlc.__main__ import main; "
        "dlc.cli.run = lambda _: print('found') or 7; sys.exit(main(['lint']))"
    )
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as output:
        done = subprocess.run([sys.executable, "-c", program], env=environment, stdout=output, timeout=60)
    assert done.returncode == 7


def test_an_error_that_nobody_can_read_keeps_its_exit_code() -> None:
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-m", "dlc", "list", "nothing-*"]
        done = subprocess.run(words, cwd=ROOT, stderr=full, timeout=60)
    assert done.returncode == SelectorError.exit_code
