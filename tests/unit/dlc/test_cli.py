"""Every verb helps with an example, prints JSON where it prints data, and turns errors into exit codes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dlc.__main__ import main
from dlc.cli import PLUMBING, VERBS, load, run
from dlc.cli.list import cells
from dlc.core.errors import DiskError, DlcError, InternalError, LockError, SelectorError, SpecError, UsageError
from dlc.engine.images import Image

ROOT = Path(__file__).parents[3]
TORCH = "pytorch-2.13-training-cpu-py311"
# Packages that cost more than `dlc plan` may take in all, or that it has no business with.
HEAVY = ("rich", "uv", "asyncio", "http", "email.mime", "dlc.engine", "dlc.core.process", "dlc.build.host")


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def dlc(*argv: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "dlc", *argv]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("verb", [*VERBS, *PLUMBING])
def test_every_verb_helps_and_shows_an_example_of_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run([verb, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert f"example: dlc {verb}" in text
    assert load(verb).HELP in text


@pytest.mark.parametrize("argv", [[], ["--help"], ["help"]])
def test_help_lists_every_verb_with_its_line(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    text = capsys.readouterr().out
    for verb in VERBS:
        assert f"  {verb} " in text
        assert load(verb).HELP in text


@pytest.mark.parametrize(
    ("argv", "error", "words"),
    [
        (["paln"], UsageError, "did you mean 'plan'?"),
        (["plan", "--jsn"], UsageError, "dlc plan --help"),
        (["plan", "--set", "x"], UsageError, "expected PATH=VALUE"),
        (["list", "--set", "device=gpu"], UsageError, "expected cpu, or CUDA"),
        (["list", "pytorch-9.9-*"], SelectorError, "known versions of pytorch: "),
        (["show"], UsageError, "ID"),
        (["size", "x", "--top", "-1"], UsageError, "expected a whole number above 0, found '-1'"),
        (["size", "x", "--top", "1000000"], UsageError, "expected at most 999999, found 1000000"),
        (["diff", "x", "y", "--top", "all"], UsageError, "expected a whole number above 0, found 'all'"),
        (["plan", "--set", "packages.training=[numpy==1.0]"], LockError, "dlc lock"),
    ],
)
def test_a_wrong_command_line_is_one_message_and_an_exit_code(
    argv: list[str], error: type[DlcError], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == error.exit_code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("dlc: ")
    assert words in err


def test_the_inner_run_raises_what_main_reports() -> None:
    with pytest.raises(UsageError):
        run(["nothing-like-it"])


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


def test_list_shows_the_size_the_start_of_the_digest_and_the_minute_of_a_built_image() -> None:
    image = Image("dlc/toy:1", f"sha256:{'0123456789ab' * 5}cdef", "key", "2026-11-20T15:40:31Z", 1_597_000_000)
    assert cells(image) == {"size": "1.60 GB", "digest": "0123456789ab", "created": "2026-11-20 15:40"}
    assert set(cells(None).values()) == {"-"}


def test_show_prints_each_value_with_the_place_that_set_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", TORCH, "--set", "base.image=debian:12", "--json"]) == 0
    settings = json.loads(capsys.readouterr().out)[TORCH]["settings"]
    assert settings["base.image"] == {"value": "debian:12", "origin": "--set base.image=debian:12"}
    assert settings["repository"]["origin"].startswith("buildspec/defaults.yml:")
    assert settings["packages.framework"]["origin"].startswith("buildspec/pytorch/2.13-training.yml:")
    assert main(["show", TORCH]) == 0
    assert "[torch==2.13.0+cpu]" in capsys.readouterr().out


def test_plan_prints_every_target_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", TORCH]) == 0
    text = capsys.readouterr().out
    assert text.index("rootfs-bookworm\n") < text.index(f"\n{TORCH}/framework\n") < text.index(f"\n{TORCH}\n")
    assert text.count("  platform  linux/amd64\n") == 9
    assert "9 targets for 1 images" in text
    assert main(["plan", TORCH, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["selected"] == [TORCH]
    assert [target["id"] for target in value["targets"]][-1] == TORCH
    assert value["decisions"] == []


def test_a_stale_schema_is_found_and_then_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("buildspec", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    assert main(["schema", "--check"]) == 0
    (tmp_path / "buildspec/pins.schema.json").write_text("{}")
    assert main(["schema", "--check"]) == SpecError.exit_code
    assert "buildspec/pins.schema.json: not what the models say" in capsys.readouterr().err
    assert main(["schema"]) == 0
    assert capsys.readouterr().out == "buildspec/pins.schema.json\n"
    assert main(["schema", "--check"]) == 0


def test_the_process_exits_with_the_code_of_its_error_and_shows_no_traceback() -> None:
    done = dlc("list", "nothing-*")
    assert done.returncode == SelectorError.exit_code
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_reader_that_had_enough_is_no_error() -> None:
    command = f"{sys.executable} -m dlc plan --json | head -n 1"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, without_warnings(done.stderr)) == (0, "")


def without_warnings(stderr: str) -> str:
    """What a plan says besides that images are unsupported, or soon will be."""
    return "".join(line for line in stderr.splitlines(keepends=True) if not line.startswith("dlc: warning: "))


def test_a_full_disk_is_an_error_with_its_own_code() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "dlc", "plan"],
            cwd=ROOT,
            env=environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    expected = (DiskError.exit_code, "dlc: output: No space left on device\n")
    assert (done.returncode, without_warnings(done.stderr)) == expected


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", ">&- 2>&- <&-"])
def test_a_closed_stdout_is_a_wrong_command_line_and_no_traceback(closed: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = f"{sys.executable} -m dlc plan {closed}"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    assert done.returncode == UsageError.exit_code
    assert "Traceback" not in done.stderr
    assert ("stdout is closed" in done.stderr) is ("2>&-" not in closed)


@pytest.mark.parametrize("closed", ["2>&-", "<&-", "2>&- <&-"])
def test_other_closed_streams_do_no_harm(closed: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = f"{sys.executable} -m dlc plan --json {closed}"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0
    assert json.loads(done.stdout)["targets"]


def failing(variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    program = "import sys, dlc.cli, dlc.__main__ as m; dlc.cli.run = lambda argv: {}['absent']; sys.exit(m.main([]))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **variables}
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
    assert (done.returncode, done.stderr) == (1, f"dlc: {tmp_path}/docs/buildspec.md: Not a directory\n")


# Verb -> the arguments without which it is no command line at all.
NEEDS_A_CHECKOUT = {
    "list": [], "show": [TORCH], "plan": [], "lock": ["*"], "update": ["debian"], "build": [TORCH],
    "test": ["*"], "size": [TORCH], "sbom": [TORCH], "diff": [TORCH, TORCH], "docs": [], "scan": [TORCH], "schema": [],
    "push": [TORCH, "--to", "localhost:1"], "verify-reproducible": [TORCH],
    "advise": ["--measured", "p4d.24xlarge=192"],
    "run": [TORCH, "train.py"], "tune-batch": [TORCH, "train.py", "--hp-name", "batch"],
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


WITHOUT_A_CHECKOUT = ("engine", "doctor", "packages", "lint", "profile", "run", "tune-batch")


@pytest.mark.parametrize("verb", [verb for verb in (*VERBS, *PLUMBING) if verb not in WITHOUT_A_CHECKOUT])
def test_outside_a_checkout_nothing_is_read_or_written(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([verb, *NEEDS_A_CHECKOUT.get(verb, [])]) == UsageError.exit_code
    assert f"{tmp_path}: expected buildspec/defaults.yml" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.split()[0] == "dlc"


def test_help_of_a_verb_is_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "build"]) == 0
    assert "example: dlc build" in capsys.readouterr().out
    assert main(["help", "bulid"]) == UsageError.exit_code
    assert "did you mean 'build'?" in capsys.readouterr().err


def test_every_exit_code_is_explained_and_none_means_two_things(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "exit-codes"]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    codes = [int(code) for code, _ in lines]
    assert codes == sorted(set(codes))
    assert all(meaning for _, meaning in lines)
    # Two classes share a code only where one is the other more exactly.
    owners: dict[int, type[DlcError]] = {}
    for error in every_error(DlcError):
        assert issubclass(error, owners.setdefault(error.exit_code, error)), error
        assert error.exit_code in codes


def test_no_exit_code_of_an_error_is_one_of_sysexits_with_another_meaning() -> None:
    assert not {error.exit_code for error in every_error(DlcError)} & set(range(64, 79))


def every_error(base: type[DlcError]) -> list[type[DlcError]]:
    return [base, *(error for derived in base.__subclasses__() for error in every_error(derived))]


@pytest.mark.parametrize("argv", [["list", "--js"], ["engine", "stop", "--fo"]])
def test_the_beginning_of_an_option_is_not_the_option(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == UsageError.exit_code
    assert "unrecognized arguments" in capsys.readouterr().err


@pytest.mark.usefixtures("no_engine")
def test_references_and_identifiers_come_plain_for_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", TORCH, "--ref"]) == 0
    assert capsys.readouterr().out == "dlc/pytorch:2.13-training-cpu-py311\n"
    assert main(["list", TORCH, "--ids"]) == 0
    assert capsys.readouterr() == (f"{TORCH}\n", "")


@pytest.mark.parametrize(
    ("verb", "needed"), [("plan", ()), ("list", ("dlc.engine", "dlc.core.process"))], ids=["plan", "list"]
)
def test_planning_imports_nothing_that_it_does_not_need(verb: str, needed: tuple[str, ...]) -> None:
    program = f"import sys; from dlc.__main__ import main; main([{verb!r}]); print(*sys.modules, file=sys.stderr)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    loaded = set(done.stderr.split())
    assert "dlc.buildspec.matrix" in loaded
    assert sorted(loaded & set(HEAVY) - set(needed)) == []
