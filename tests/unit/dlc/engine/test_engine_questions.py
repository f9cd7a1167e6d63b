"""engine.questions: only an engine that says so lacks a thing; what a busy one could not answer is asked again."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from dlc.core.errors import EngineError
from dlc.core.process import Completed
from dlc.engine import connection, docker_client, images, questions
from dlc.engine.docker_client import Engine
from dlc.engine.private_engine import PrivateEngine
from dlc.places.local.run import find_foreign_platform

ABSENT = "Error response from daemon: No such image: toy:1"
LATE = "Error response from daemon: context deadline exceeded"


class ScriptedEngine(Engine):
    """Gives the answers of the test, one after the other, the last one for ever."""

    def docker(self, *words: str, timeout: float = 0.0, **_: object) -> Completed:
        clock.asked += 1
        clock.timeouts.append(timeout)
        code, out, said = clock.answers[min(clock.asked, len(clock.answers)) - 1]
        return Completed(words, code, out, said)


clock = SimpleNamespace()
ENGINE = ScriptedEngine(None, "context", "26", containerd_store=True)
KEY = (0, "toy:1 |abc\n", "")


@pytest.fixture(autouse=True)
def own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock.__dict__.update(now=0.0, asked=0, answers=[], timeouts=[])

    def sleep(seconds: float) -> None:
        clock.now += seconds

    monkeypatch.setattr(questions, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))


@pytest.mark.parametrize(
    "said", [LATE, "error during connect: EOF", "", "request returned 500 for API route", f"{ABSENT}\n{LATE}"]
)
def test_an_image_that_a_busy_engine_could_not_look_up_is_asked_for_again(said: str) -> None:
    clock.answers = [(1, "", said), (1, "", said), KEY]
    assert images.find_keys(ENGINE, ["toy:1"]) == {"toy:1": "abc"}


@pytest.mark.parametrize(
    "said",
    [
        ABSENT,
        "Error: No such image: toy:1",
        "Emulate Docker CLI using podman.\nError: toy:1: image not known",
        "WARNING: no configuration\nError response from daemon: invalid reference format",
    ],
)
def test_an_image_that_is_not_there_is_asked_for_once(said: str) -> None:
    clock.answers = [(1, "\n", said)]
    assert images.find_keys(ENGINE, ["toy:1"]) == {}
    assert (clock.asked, clock.now) == (1, 0.0)


def test_an_error_that_stays_is_told_in_the_engines_words_and_not_as_a_missing_image() -> None:
    clock.answers = [(1, "", LATE)]
    with pytest.raises(EngineError, match=r"`docker image inspect` failed: .*context deadline exceeded"):
        find_foreign_platform("toy:1", ENGINE)
    assert (clock.asked, clock.now) == (len(questions.PAUSES_SECONDS) + 1, sum(questions.PAUSES_SECONDS))


@pytest.mark.parametrize(("found", "told"), [("linux/amd64", ""), ("linux/arm64", "linux/arm64")])
def test_docker_has_to_be_told_the_platform_of_an_image_that_is_not_the_engines(found: str, told: str) -> None:
    clock.answers = [(0, f"{found}\n", "")]
    assert find_foreign_platform("dlc/pytorch:2.13-training-cpu-py311-arm64-set-0a1b2c3d", ENGINE) == told


def test_who_promises_a_quick_answer_does_not_ask_for_longer() -> None:
    clock.answers = [(1, "", LATE)]
    with pytest.raises(EngineError, match="context deadline exceeded"):
        images.find_keys(ENGINE, ["toy:1"], 3.0)
    assert clock.now <= 3.0


def test_verbs_that_need_the_engine_wait_three_minutes_for_each_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock.answers = [(0, "", "")]
    monkeypatch.setattr(connection, "find_engine", lambda seconds: clock.timeouts.append(seconds) or ENGINE)
    connection.connect()
    images.find_keys(ENGINE, ["toy:1"])
    images.find_images(ENGINE, ["toy:1"], built=["toy:1"])
    find_foreign_platform("toy:1", ENGINE)
    assert clock.timeouts == [180.0] * 6


def test_no_names_are_no_question() -> None:
    assert images.find_keys(ENGINE, []) == {}
    assert clock.asked == 0


def test_who_waits_is_told_once_what_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "time", time)
    monkeypatch.setattr(questions, "TELL_SECONDS", 0.05)
    monkeypatch.setattr(questions, "_told_at", -questions.TELL_AGAIN_SECONDS)
    with questions.tell_of_waiting("`docker image inspect`"), questions.tell_of_waiting("`docker history`"):
        time.sleep(0.3)
    assert capsys.readouterr().err.count("dlc: waiting for the Docker engine: `docker ") == 1


@pytest.mark.parametrize("how", ["it has started", "its first line came"])
def test_an_engine_that_has_done_its_part_is_not_waited_for(
    how: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "time", time)
    monkeypatch.setattr(questions, "TELL_SECONDS", 0.05)
    monkeypatch.setattr(questions, "_told_at", -questions.TELL_AGAIN_SECONDS)
    with questions.tell_of_waiting("it starts algo-1", lambda: how == "it has started") as answered:
        if how == "its first line came":
            answered()
        time.sleep(0.3)
    assert capsys.readouterr().err == ""


def test_who_does_not_wait_is_told_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with questions.tell_of_waiting("`docker image inspect`"):
        pass
    assert capsys.readouterr().err == ""


def test_a_client_that_cannot_change_its_context_is_no_error_of_an_engine_that_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def silent() -> tuple[str, str]:
        raise EngineError("not answering: `docker context inspect`")

    monkeypatch.setattr(docker_client, "read_context", silent)
    monkeypatch.setattr(docker_client, "is_present", lambda: True)
    assert not PrivateEngine(tmp_path).stop()
    assert "warning: the context of plain docker commands is as it was: not answering" in capsys.readouterr().err
