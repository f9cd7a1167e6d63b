"""How far a job is, from the step files of its ranks: lines, the report, and no end that nobody knows."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from dlc_runtime.steps import counter as counters
from dlc_runtime.steps.counter import EPOCH, EPOCH_BATCH, EPOCH_BATCHES, GLOBAL_STEP, TOTAL_STEPS, Counter
from launch.supervision.progress import FILE, LINE_SECONDS, Progress, read_first, read_steps

BEGIN = 1000.0
HEAD = b'{"rank": "0", "fields": ["steps", "stepped_at"]}'.ljust(512)
NO_NUMBERS = [HEAD + struct.pack("2d", 3, float(value)) for value in ("nan", "inf")]


class Optimizer:
    """One that steps."""


class Rank:
    """A process that counts its steps, and a launcher that looks every 10 seconds."""

    def __init__(self, folder: Path) -> None:
        self.counter = Counter()
        self.progress = Progress(str(folder), str(folder / "results"), BEGIN)
        self.report = folder / "results" / FILE
        self.now = BEGIN
        self.lines: list[str] = []

    def train(self, seconds: float, steps_per_look: int, is_last: bool = False) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += 10
            if steps_per_look:
                self.counter.add_steps(steps_per_look)
            line = self.progress.look(self.now, is_last and self.now >= end)
            self.lines += [line] if line else []

    @property
    def last(self) -> dict[str, str]:
        return dict(word.split("=") for word in self.lines[-1].split())


@pytest.fixture
def rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rank:
    monkeypatch.setenv(counters.FOLDER, str(tmp_path))
    monkeypatch.delenv("RANK", raising=False)
    rank = Rank(tmp_path)
    monkeypatch.setattr(counters, "time", SimpleNamespace(monotonic=lambda: rank.now))
    return rank


def test_the_rate_at_the_end_is_that_of_the_steps_and_not_of_what_follows(rank: Rank) -> None:
    for _ in range(5):
        rank.now += 2
        rank.counter.add_steps(1)
    assert rank.progress.look(BEGIN + 300, is_last=True) == "step=5 steps_per_second=0.5"


def test_a_line_comes_each_minute_and_at_the_end(rank: Rank) -> None:
    rank.train(200, 30)
    assert [line.split()[0] for line in rank.lines] == ["step=180", "step=360", "step=540"]
    rank.train(10, 30, is_last=True)
    assert rank.lines[-1] == "step=630 steps_per_second=3.0"


def test_a_job_without_steps_says_nothing_and_writes_no_report(rank: Rank) -> None:
    rank.train(200, 0, is_last=True)
    assert rank.lines == []
    assert not rank.report.exists()


def test_a_job_that_stands_still_does_not_repeat_its_line(rank: Rank) -> None:
    rank.train(70, 30)
    rank.train(600, 0)
    assert len(rank.lines) == 2
    assert json.loads(rank.report.read_text())["steps_per_second"] == 0


def test_the_end_is_told_where_the_total_is_known(rank: Rank) -> None:
    rank.train(10, 10)
    rank.counter.say(TOTAL_STEPS, 2000)
    rank.train(990, 10)
    assert rank.last["progress"] == "48"
    assert abs(int(rank.last["eta_seconds"]) - (2000 - int(rank.last["step"]))) <= 10
    report = json.loads(rank.report.read_text())
    assert (report["version"], report["step"], report["total_steps"], report["progress"]) == (1, 1000, 2000, 50)


def test_without_a_total_there_is_a_rate_and_the_share_of_the_epoch_alone(rank: Rank) -> None:
    rank.train(10, 10)
    for field, value in ((EPOCH, 3), (EPOCH_BATCH, 41), (EPOCH_BATCHES, 100)):
        rank.counter.say(field, value)
    rank.train(60, 10)
    assert rank.lines[-1].split()[1:] == ["steps_per_second=1.0", "epoch=3", "epoch_progress=41"]


def test_a_job_that_went_on_counts_from_where_it_began(rank: Rank) -> None:
    rank.counter.ask_trainer = lambda: (899, 1000, 9)
    rank.counter.add_steps(1)
    assert rank.progress.look(BEGIN + LINE_SECONDS) == "step=900 steps_per_second=0.0 epoch=9 progress=90"


def test_no_end_is_told_before_twenty_steps_and_soon_after_another_rate(rank: Rank) -> None:
    rank.counter.say(TOTAL_STEPS, 100_000)
    rank.train(120, 1)
    assert "eta_seconds" not in rank.last
    rank.train(600, 10)
    assert "eta_seconds" in rank.last
    rank.train(60, 100)
    assert "eta_seconds" not in rank.last
    rank.train(300, 100)
    assert abs(int(rank.last["eta_seconds"]) - (100_000 - int(rank.last["step"])) / 10) < 100


def test_an_evaluation_is_part_of_the_rate_and_no_other_rate(rank: Rank) -> None:
    rank.counter.say(TOTAL_STEPS, 10_000)
    for _ in range(6):
        rank.train(80, 10)
        rank.train(80, 0)
    seconds = 2 * (10_000 - int(rank.last["step"]))
    assert abs(int(rank.last["eta_seconds"]) - seconds) < 0.1 * seconds


def test_another_model_begins_at_its_own_first_step(rank: Rank) -> None:
    rank.counter.say(GLOBAL_STEP, 500)
    rank.counter.add_steps(1)
    rank.progress.look(BEGIN + 10)
    rank.counter.say(GLOBAL_STEP, 3)
    rank.counter.add_steps(1)
    assert rank.progress.look(BEGIN + 100) == "step=3"


def test_the_first_rank_speaks_for_the_job(rank: Rank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rank.counter.add_steps(7)
    monkeypatch.setenv("RANK", "1")
    Counter().add_steps(9)
    found = read_first(str(tmp_path))
    assert found is not None
    assert (found.rank, found.steps) == (0, 7)


NO_FILES = [b"", b"{}", b"[]", b"no json" * 100, b'{"rank": "x", "fields": []}'.ljust(512), *NO_NUMBERS]


@pytest.mark.parametrize("content", NO_FILES)
def test_a_file_that_is_none_of_ours_counts_nothing(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "0-1.steps"
    path.write_bytes(content)
    assert read_steps(str(path)) is None
    assert read_first(str(tmp_path)) is None


def test_a_folder_that_cannot_be_written_is_told_once_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(counters.FOLDER, str(tmp_path / "missing"))
    counter = Counter()
    counter.add_steps(1)
    counter.add_steps(1)
    assert capfd.readouterr().err.count("steps are not counted") == 1


def test_optimizers_that_step_in_turns_make_one_step_together(rank: Rank, tmp_path: Path) -> None:
    generator, critic = Optimizer(), Optimizer()
    for _ in range(4):
        for _ in range(5):
            rank.counter.note_optimizer(critic)
        rank.counter.note_optimizer(generator)
    found = read_first(str(tmp_path))
    assert found is not None
    assert found.steps == 20


def test_a_fault_in_a_hook_is_told_once_and_ends_no_training(rank: Rank, capfd: pytest.CaptureFixture[str]) -> None:
    class Broken:
        def write(self, *_arguments: object) -> bool:
            raise RuntimeError("out of order")

    rank.counter.batches = Broken()
    for _ in range(3):
        rank.counter.note_optimizer(Optimizer())
    assert capfd.readouterr().err.count("out of order") == 1
