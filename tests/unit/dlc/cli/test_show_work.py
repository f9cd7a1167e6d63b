"""Work that takes long is shown while it runs: by lines with its time on a pipe, which CI keeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from dlc.cli import push, sbom, scan, size
from dlc.cli.shared.arguments import show_work
from dlc.image_build.progress_display import Display

HANG_SECONDS = 60


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lines of running work come every few milliseconds."""
    monkeypatch.setattr(Display.__init__, "__defaults__", (0.02,))


@pytest.fixture
def wait_for(capsys: pytest.CaptureFixture[str], quick: None) -> Callable[[str], str]:
    """A function that works until stderr has some words, and returns all that it had."""

    def wait(words: str) -> str:
        said, deadline = "", time.monotonic() + HANG_SECONDS
        while words not in said:
            assert time.monotonic() < deadline, said
            time.sleep(0.01)
            said += capsys.readouterr().err
        return said

    return wait


def test_a_pipe_gets_a_line_at_the_start_and_lines_with_the_time(wait_for: Callable[[str], str]) -> None:
    with show_work("an image", "packages") as say:
        said = wait_for("0 s so far  an image  packages\n")
        assert said.startswith("  an image: packages\n")
        say("files")
        wait_for("0 s so far  an image  files\n")


def test_the_scan_of_a_push_says_how_long_it_has_taken_and_what_it_asks(
    wait_for: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def scan_image(*words: Any) -> None:
        words[-1]("pending security updates of Debian packages")
        wait_for("0 s so far  pytorch-x  pending security updates of Debian packages\n")

    monkeypatch.setattr(push, "scan_image", scan_image)
    monkeypatch.setattr(push, "require_clean", lambda found: None)
    order: Any = SimpleNamespace(id="pytorch-x", ref="dlc/pytorch:x")
    captured: Any = None
    engine: Any = None
    push._scan(order, engine, captured, ())


@pytest.mark.parametrize("verb", [scan, sbom, size])
def test_verbs_that_list_the_packages_of_an_image_say_so_while_they_do(
    verb: Any, wait_for: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class SeenError(Exception):
        """The line was there."""

    def capture_facts(*_: object) -> None:
        wait_for("0 s so far  old:1  packages\n")
        raise SeenError

    monkeypatch.setattr(verb.facts, "capture_facts", capture_facts)
    monkeypatch.setattr(verb, "connect", lambda: None)
    monkeypatch.setattr(verb, "pull_pushed", lambda *_: None, raising=False)
    name = verb.__name__.rpartition(".")[2]
    from dlc.cli import make_parser

    args = make_parser(name)[0].parse_args(["old:1"])
    with pytest.raises(SeenError):
        verb.run(args)
