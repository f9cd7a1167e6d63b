"""Every verb that reads prints JSON if it is asked to, and fits a terminal of 60 columns, with colours or without."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from dlc.__main__ import main
from dlc.cli import VERBS, load_verb, make_parser
from dlc.cli.shared.arguments import print_text
from dlc.core.text import link_paths, paint_lines, paint_text, plain_text, shows_colors, wrap_text

ROOT = Path(__file__).parents[4]
TORCH = "pytorch-2.13-training-cpu-py311"
ADVISE = ("--on", "p4d.24xlarge", "--step-ms", "86", "--cpu-seconds", "2.304")
# Verbs that act, and whose output is no answer to a question.
ACTING = {
    "init": "writes files, and names each",
    "lock": "writes files, and names each",
    "export": "writes a folder",
    "test": "prints pytest's lines",
    "logs": "prints the lines of a job as they are",
    "stop": "says on stderr what it does",
    "submit": "hands a job over and prints its id, or the document as it is",
    "exec": "becomes the command",
    "shell": "becomes the shell",
    "completion": "prints a script for a shell",
    "docs": "writes files",
    "site": "writes files",
    "ci": "prints the file of a CI system",
}
# Verbs that read, and words with which they do it here, without an engine. None: it needs an image or a network.
READING: dict[str, tuple[str, ...] | None] = {
    "list": (TORCH,), "show": (TORCH,), "plan": (TORCH, "--targets"), "build": (TORCH, "--dry-run"), "doctor": (),
    "engine": ("status",), "ps": (), "clean": ("--jobs",), "advise": ADVISE, "profile": ("rank-0.json",),
    "lint": ("train.py", "--no-torchfix"), "run": ("--explain", "x:1", "train.py"),
    "update": None, "size": None, "sbom": None, "diff": None, "push": None, "scan": None,
    "verify-reproducible": None, "verify": None, "tune-batch": None, "promote": None, "prune": None,
}  # fmt: skip
HERE = {verb: words for verb, words in READING.items() if words is not None}
# Commands that somebody copies, and lines of FILE:LINE:COLUMN that editors read, are not broken.
UNBROKEN = ("run", "lint")
PROFILE = {
    "version": 1, "state": "ended", "framework": "torch", "host": "algo-1", "rank": 0, "steps": 100,
    "step_seconds": 0.184, "waiting_seconds": 100.9, "computing_seconds": 18.4, "starting_seconds": 0.5,
    "batch_bytes": 3_211_264.0, "gpu": {"use": 0.15, "gpus": []},
    "preprocessing": {"batches": 120, "cpu_seconds": 1145.0, "seconds": 1152.0, "workers": 8},
    "cpu": {"usable": 8.0, "busy": 0.99, "seconds": 120.0, "job_cpu_seconds": 1000.0},
}  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a script, a profile and an ended job; no docker client and no engine, and one job is known."""
    monkeypatch.chdir(ROOT)
    for name in (
        "engine.connection",
        "cli.ps",
        "cli.engine",
        "image_build.doctor",
        "places.local.running",
    ):
        monkeypatch.setattr(f"dlc.{name}.find_engine", lambda *_: None)
    monkeypatch.setattr("dlc.engine.docker_client.is_present", lambda: False)
    for name, value in {"DLC_CACHE_DIR": str(tmp_path / "cache"), "COLUMNS": "60", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    (tmp_path / "cache/jobs").mkdir(parents=True)
    (tmp_path / "cache/jobs/20261120-093000-0a1b2c").write_text("unix:///a.sock\n")
    (tmp_path / "train.py").write_text("import torch\nmodel = torch.nn.Linear(1, 1)\n")
    (tmp_path / "rank-0.json").write_text(json.dumps(PROFILE))
    (tmp_path / "dlc-jobs/20261120-080000-000000/hosts/algo-1").mkdir(parents=True)
    return tmp_path


def call(verb: str, place: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> None:
    """Call a verb with its words, which may fail for what this machine lacks, but not by a bug."""
    words = [str(place / word) if (place / word).exists() else word for word in HERE[verb]]
    if verb == "clean":
        monkeypatch.chdir(place)
    assert main([verb, *more, *words]) in (0, 1)


def test_each_verb_reads_or_acts() -> None:
    assert sorted([*ACTING, *READING]) == sorted(VERBS)


@pytest.mark.parametrize("verb", READING)
def test_what_reads_takes_json(verb: str) -> None:
    assert "--json" in make_parser(verb)[0]._option_string_actions


@pytest.mark.parametrize("verb", HERE)
def test_json_is_one_document(
    verb: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call(verb, place, monkeypatch, "--json")
    out = capsys.readouterr().out
    assert json.loads(out)
    assert "\x1b" not in out


@pytest.mark.parametrize("color", [True, False])
@pytest.mark.parametrize("verb", [verb for verb in HERE if verb not in (*UNBROKEN, "clean")])
def test_lines_fit_a_terminal_of_60_columns(
    verb: str, color: bool, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line is longer only if it is one word."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    if not color:
        monkeypatch.setenv("NO_COLOR", "1")
    call(verb, place, monkeypatch)
    out = capsys.readouterr().out
    assert out
    assert [line for line in plain_text(out).splitlines() if len(line) > 60 and len(line.split()) > 1] == []
    if not color:
        assert "\x1b" not in out


@pytest.mark.parametrize("verb", ["list", "ps", "doctor", "advise"])
def test_a_terminal_shows_colours(
    verb: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    call(verb, place, monkeypatch)
    colored = capsys.readouterr().out
    assert re.search(r"\x1b\[\d+m[^\x1b]+\x1b\[0m", colored)
    for name, value in {"NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
        call(verb, place, monkeypatch)
        assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("verb", READING)
def test_texts_are_printed_in_lines_that_fit(verb: str) -> None:
    """All text that a verb makes for people goes through `print_text`, but for what is copied as it is."""
    source = Path(str(load_verb(verb).__file__)).read_text()
    unfitted = re.findall(r"(?<![\w_])print\((?:[\w.]*as_text)\(", source)
    assert unfitted == [] or verb in (*UNBROKEN, "push")


def test_the_error_of_a_terminal_is_red(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    main(["no-verb"])
    assert capsys.readouterr().err.startswith("\x1b[31mdlc:\x1b[0m no-verb: unknown verb")
    monkeypatch.setenv("NO_COLOR", "1")
    main(["no-verb"])
    assert capsys.readouterr().err.startswith("dlc: no-verb: unknown verb")


@pytest.mark.parametrize(
    ("environment", "is_terminal", "expected"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm"}, False, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({}, True, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(
    environment: dict[str, str], is_terminal: bool, expected: bool
) -> None:
    assert shows_colors(environment, is_terminal=is_terminal) is expected


def test_a_long_line_is_broken_at_spaces_and_goes_on_with_an_indent() -> None:
    assert wrap_text("  one two three\nfour", 11) == "  one two\n     three\nfour"
    assert wrap_text("a " + "b" * 20, 11) == "a\n    " + "b" * 20
    painted = f"{paint_text('one', 'bad')} two"
    assert wrap_text(painted, 7) == painted
    assert plain_text(wrap_text(painted, 6)) == "one\n   two"


def test_a_word_of_a_kind_is_painted_where_it_begins_a_line_and_a_head_is_one_line() -> None:
    assert paint_lines("bad  engine bad\n good", {"bad": "bad"}) == "\x1b[31mbad\x1b[0m  engine bad\n good"
    assert paint_lines("ID  SIZE\nx  1", {"ID": "head"}) == "\x1b[1mID  SIZE\x1b[0m\nx  1"


def test_paths_at_the_end_of_a_line_lead_to_their_files() -> None:
    text = "job x has ended: algo-1 0\n  results: /a b/c\n  the whole reason: /tmp/f\nsee /tmp/g now"
    linked = link_paths(text)
    assert plain_text(linked) == text
    assert re.findall(r"\x1b\]8;;([^\x1b]+)\x1b", linked) == ["file:///tmp/f"]


def test_a_file_gets_a_text_as_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    monkeypatch.setenv("TERM", "xterm")
    print_text("bad this is longer than ten", {"bad": "bad"})
    assert capsys.readouterr().out == "bad this is longer than ten\n"
