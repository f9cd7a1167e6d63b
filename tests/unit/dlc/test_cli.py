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
from dlc.core.errors import UsageError
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
    ("argv", "code", "words"),
    [
        (["paln"], 64, "did you mean 'plan'?"),
        (["plan", "--jsn"], 64, "dlc plan --help"),
        (["plan", "--set", "x"], 64, "expected PATH=VALUE"),
        (["list", "--set", "device=gpu"], 64, "expected cpu, or CUDA"),
        (["list", "pytorch-9.9-*"], 66, "known versions of pytorch: 1.10, 2.9, 2.13, 2.15"),
        (["show"], 64, "ID"),
        (["plan", "--set", "packages.training=[numpy==1.0]"], 67, "dlc lock"),
    ],
)
def test_a_wrong_command_line_is_one_message_and_an_exit_code(
    argv: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == code
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
    assert text.index("rootfs-bookworm\n") < text.index(f"\n{TORCH}/system\n") < text.index(f"\n{TORCH}\n")
    assert text.count("  platform  linux/amd64\n") == 6
    assert "6 targets for 1 images" in text
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
    assert main(["schema", "--check"]) == 65
    assert "buildspec/pins.schema.json: not what the models say" in capsys.readouterr().err
    assert main(["schema"]) == 0
    assert capsys.readouterr().out == "buildspec/pins.schema.json\n"
    assert main(["schema", "--check"]) == 0


def test_the_process_exits_with_the_code_of_its_error_and_shows_no_traceback() -> None:
    done = dlc("list", "nothing-*")
    assert done.returncode == 66
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_reader_that_had_enough_is_no_error() -> None:
    command = f"{sys.executable} -m dlc plan --json | head -n 1"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


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
    assert (done.returncode, done.stderr) == (74, "dlc: output: No space left on device\n")


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "buildspec", tmp_path / "buildspec")
    (tmp_path / "docs").write_text("a file where a folder should be")
    done = dlc("schema", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, f"dlc: {tmp_path}/docs/buildspec.md: Not a directory\n")


def test_outside_a_checkout_the_tool_finds_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["list", TORCH]) == 0


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
