"""Every verb helps with an example, prints JSON where it prints data, and turns errors into exit codes."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from dlc.__main__ import main
from dlc.buildspec.matrix import load_variants
from dlc.cli import PLUMBING, VERBS, list_misspelt, load_verb, run
from dlc.cli.list import choose_columns, format_built
from dlc.cli.shared.plan_decisions import as_text
from dlc.core.checkout import read_tree
from dlc.core.errors import DlcError, LockError, ScriptError, SelectorError, SpecError, UsageError
from dlc.engine.images import Image
from dlc.plan.plan import make_plan
from harness.specimen import specimen
from launch.base.settings import RUNTIME_SETTINGS, SETTINGS

ROOT = Path(__file__).parents[4]
TORCH = "pytorch-2.13-training-cpu-py311"


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("verb", [*VERBS, *PLUMBING])
def test_every_verb_helps_and_shows_an_example_of_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run([verb, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert f"example: dlc {verb}" in text
    assert load_verb(verb).HELP in text


def test_in_a_narrow_terminal_a_row_is_a_paragraph_and_nothing_is_wrapped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dlc.cli.list._read_built", lambda refs: None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["list", TORCH]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == f"ID         {TORCH}"
    assert max(map(len, shown[:7])) <= 60  # the table; the sentences below it are wrapped where the terminal likes
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["list", TORCH]) == 0
    assert capsys.readouterr().out.startswith("ID ")


def test_a_narrow_terminal_gets_a_line_for_each_image(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dlc.cli.list._read_built", lambda refs: {})
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["list"]) == 0
    heads, *rows, notes = capsys.readouterr().out.splitlines()
    assert heads.split()[0] == "ID"
    assert "SIZE" in heads
    assert len(rows) == len(load_variants(read_tree(ROOT)))
    assert max(map(len, [heads, *rows])) <= 60
    assert notes.endswith("notes on what they lack: dlc list --why, or dlc list ID")


def test_a_stale_lock_is_shown_however_narrow_a_terminal_is() -> None:
    row = {"id": "x" * 30, "framework": "y" * 22, "lock": "fresh", "ref": "z" * 30}
    assert choose_columns([row, row], 60) == ["id", "framework"]
    assert choose_columns([row, row | {"lock": "stale"}], 60) == ["id", "lock"]
    assert choose_columns([row, row], 20) == list(row)
    assert choose_columns([row, row], None) == list(row)


def test_what_images_lack_is_said_of_one_image_and_if_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dlc.cli.list._read_built", lambda refs: {})
    for words, shown in ((["pytorch-1.1*"], False), (["pytorch-1.1*", "--why"], True), (["pytorch-1.10-*"], True)):
        assert main(["list", *words]) == 0
        assert ("no xla for pytorch 1.10: torch_xla" in capsys.readouterr().out) is shown, words


@pytest.mark.parametrize("argv", [[], ["--help"], ["help"]])
def test_help_lists_every_verb_with_its_line(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    text = capsys.readouterr().out
    for verb in VERBS:
        assert f"  {verb} " in text
        assert load_verb(verb).HELP in text


@pytest.mark.parametrize(
    ("argv", "error", "words"),
    [
        (["paln"], UsageError, "did you mean 'plan'?"),
        (["plan", "--jsn"], UsageError, "dlc plan --help"),
        (["plan", "--set", "x"], UsageError, "expected PATH=VALUE"),
        (["plan", "--against", ""], UsageError, "--against: expected a path, found an empty word"),
        (["site"], UsageError, "required: DIR\n"),
        (["ci"], UsageError, "required: SYSTEM\n"),
        (["list", "--set", "device=gpu"], UsageError, "expected cpu, or CUDA"),
        (["list", "pytorch-9.9-*"], SelectorError, "known versions of pytorch: "),
        (["show"], UsageError, "GLOB"),
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


def test_list_shows_the_size_the_start_of_the_digest_and_the_minute_of_a_built_image() -> None:
    image = Image("dlc/toy:1", f"sha256:{'0123456789ab' * 5}cdef", "key", "2026-11-20T15:40:31Z", 1_597_000_000)
    assert format_built(image) == {"size": "1.60 GB", "digest": "0123456789ab", "created": "2026-11-20 15:40"}
    assert set(format_built(None).values()) == {"-"}


def test_show_prints_each_value_with_the_place_that_set_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", TORCH, "--set", "base.image=debian:12", "--json"]) == 0
    settings = json.loads(capsys.readouterr().out)[TORCH]["settings"]
    assert settings["base.image"] == {"value": "debian:12", "origin": "--set base.image=debian:12"}
    assert settings["repository"]["origin"].startswith("buildspec/defaults.yml:")
    assert settings["packages.framework"]["origin"].startswith("buildspec/pytorch/2.13-training.yml:")
    assert main(["show", TORCH]) == 0
    assert "[torch==2.13.0+cpu]" in capsys.readouterr().out


def test_plan_prints_every_target_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", TORCH, "--targets"]) == 0
    text = capsys.readouterr().out
    assert text.index("rootfs-bookworm\n") < text.index(f"\n{TORCH}/framework\n") < text.index(f"\n{TORCH}\n")
    assert text.count("  platform  linux/amd64\n") == 9
    assert "9 targets for 1 images" in text
    assert main(["plan", TORCH, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["selected"] == [TORCH]
    assert [target["id"] for target in value["targets"]][-1] == TORCH
    assert value["decisions"] == []


def test_plan_says_in_one_line_what_would_be_done_with_each_image(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert main(["list", "--ids"]) == 0
    assert [line.split()[0] for line in lines[:-1]] == capsys.readouterr().out.split()
    assert "--engine which images would be built" in lines[-1]
    plan = make_plan(specimen())
    first, second = plan.selected
    here = {plan.target(first).tags[0]: plan.target(first).key}
    text = as_text(plan, plan.decisions(here)).splitlines()
    assert text[0].split()[:2] == ["skip", first]
    assert text[1].split()[:2] == ["build", second]
    assert text[1].endswith(f"no image {plan.target(second).tags[0]}")
    assert text[2].startswith("1 of 2 images would be built, by ")
    here |= {plan.target(second).tags[0]: plan.target(second).key}
    assert as_text(plan, plan.decisions(here)).splitlines()[-1] == "0 of 2 images would be built"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["size", TORCH], f"  dlc/pytorch:{TORCH.removeprefix('pytorch-')}: packages\n"),
        (["diff", "old:1", "new:1"], "  old:1 and new:1: the engine saves them\n"),
        (["update", "packages"], ": newest versions (image 1 of "),
        (["update", "debian"], ": versions of "),
        (["lock", TORCH], f"  {TORCH}: lock\n"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_what_takes_long_is_said_before_it_begins(
    argv: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def begin(*_: object, **__: object) -> NoReturn:
        raise DlcError("begun")

    for name in ("facts.capture_facts", "archive.save_image", "archive.export_measured"):
        monkeypatch.setattr(f"dlc.inspection.{name}", begin)
    for verb in ("size", "diff"):
        monkeypatch.setattr(f"dlc.cli.{verb}.connect", lambda: None)
    for name in (
        "buildspec.locks.updates.resolve_newest",
        "buildspec.locks.updates.resolve_debian",
        "buildspec.locks.resolve.make_lock",
    ):
        monkeypatch.setattr(f"dlc.{name}", begin)
    assert main(argv) == DlcError.exit_code
    error = capsys.readouterr().err
    assert said in error.partition("dlc: begun")[0]


def test_a_folder_of_scripts_is_linted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("train.py", "models/net.py", ".venv/lib/other.py", "site-packages/other.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("print('trained')\n")
    assert main(["lint", str(tmp_path), "--no-torchfix"]) == 0
    assert "2 scripts" in capsys.readouterr().out
    (tmp_path / "none").mkdir()
    assert main(["lint", str(tmp_path / "none")]) == ScriptError.exit_code
    said = capsys.readouterr()
    assert "none: a folder without Python scripts" in said.err
    assert not said.out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["run", "--chanel", "a=b", "x:1", "train.py"], "did you mean '--channel'?"),
        (["build", "x", "--no-disk-chek"], "did you mean '--no-disk-check'?"),
        (["plan", "--taget"], "did you mean '--targets'?"),
        (["list", "--idss"], "did you mean '--ids'?"),
    ],
)
def test_a_misspelt_option_comes_with_the_one_that_is_meant(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == UsageError.exit_code
    assert words in capsys.readouterr().err


def test_an_image_that_is_none_is_told_with_those_that_there_are_one_in_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "something", "train.py"]) == SelectorError.exit_code
    assert f"\n    {TORCH}\n" in capsys.readouterr().err


@pytest.mark.parametrize("there", [True, False])
def test_a_script_before_the_image_is_told_with_the_right_order(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if there:
        (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["run", "train.py", TORCH]) == UsageError.exit_code
    said = capsys.readouterr().err
    assert "expected ID SCRIPT, found a script first: train.py" in said
    assert f"remedy: dlc run {TORCH} train.py" in said


def test_a_misspelt_variable_is_told_with_the_one_that_is_meant(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("DLC_ENGIN", "DLC_INDEX_PYTORCH_CPU", "DLC_TEAM"):
        monkeypatch.setenv(name, "off")
    assert main(["list", "--ids"]) == 0
    assert capsys.readouterr().err == (
        "dlc: warning: DLC_ENGIN: dlc reads no such variable; did you mean 'DLC_ENGINE'?\n"
    )
    of_jobs = {*(setting.name for setting in SETTINGS), *RUNTIME_SETTINGS}
    assert list_misspelt(dict.fromkeys(of_jobs, "")) == []


def test_another_word_than_off_does_not_let_an_engine_be_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DLC_ENGINE", "of")
    assert main(["engine", "start"]) == UsageError.exit_code
    assert "DLC_ENGINE=of: expected off" in capsys.readouterr().err


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
