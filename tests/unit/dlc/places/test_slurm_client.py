"""What dlc makes of the words of squeue, scontrol and sacct; no program is started."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dlc.core.errors import DlcError, HostError, ProcessError, UsageError
from dlc.core.process import Completed
from dlc.places.place import ListedJob
from dlc.places.slurm import OPTIONS, client

GONE = (1, "", "slurm_load_jobs error: Invalid job id specified")
BUSY = (1, "", "slurm_load_jobs error: Unable to contact slurm controller")


class Cluster:
    """Answers of Slurm's programs: each is said once, the last one again and again."""

    def __init__(self, **answers: Sequence[tuple[int, str, str]]) -> None:
        self.answers = {name: list(texts) for name, texts in answers.items()}
        self.pauses = 0
        self.on_pause: Callable[[], object] = lambda: None

    def run(self, argv: Sequence[str], **_: Any) -> Completed:
        answers = self.answers[argv[0]]
        return Completed(tuple(argv), *(answers.pop(0) if len(answers) > 1 else answers[0]))

    def pause(self, seconds: float) -> None:
        self.pauses += 1
        self.on_pause()


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Put a cluster where the client looks for one."""

    def put(**answers: Sequence[tuple[int, str, str]]) -> Cluster:
        cluster = Cluster(**answers)
        monkeypatch.setattr(client.shutil, "which", lambda name: name if name in answers else None)
        monkeypatch.setattr(client, "run_program", cluster.run)
        monkeypatch.setattr(client.time, "sleep", cluster.pause)
        return cluster

    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path))
    return put


def test_jobs_that_wait_have_a_reason_and_no_start_and_other_lines_are_passed_over(put: Any) -> None:
    rows = (
        "a warning", "7|digits|PENDING|N/A|2|PartitionTimeLimit", "8|more|RUNNING|2026-11-28T10:00:00|1|None",
        "9|new|PENDING|N/A|1|None",
    )  # fmt: skip
    put(squeue=[(0, "".join(f"{row}\n" for row in rows), "")])
    assert client.list_jobs(OPTIONS()) == [
        ListedJob("7", "digits", "PENDING: PartitionTimeLimit", "", "2"),
        ListedJob("8", "more", "RUNNING", "2026-11-28T10:00:00", "1"),
        ListedJob("9", "new", "PENDING", "", "1"),
    ]


@pytest.mark.parametrize(
    ("shown", "told", "code"),
    [
        ("JobId=7 JobState=FAILED JobName=digits ExitCode=9:0 StdOut=/x/log", "COMPLETED|0:0", 9),
        ("JobId=7 JobState=FAILED Comment=a=b ExitCode=0:15", "COMPLETED|0:0", 143),
        ("JobId=7 JobState=FAILED ExitCode=3:0 Comment=x JobState=COMPLETED ExitCode=0:0", "", 3),
        ("", "FAILED|3:0\nCOMPLETED|0:0\n", 3),
        ("JobId=7 without a code", "COMPLETED|0:0", 0),
    ],
)
def test_the_code_is_the_controllers_and_later_that_of_the_accounts(put: Any, shown: str, told: str, code: int) -> None:
    put(squeue=[GONE], scontrol=[(0, shown, "")], sacct=[(0, told, "")])
    assert client.wait_for_job("7", OPTIONS()) == code


@pytest.mark.parametrize("is_gone", [False, True], ids=["controller", "accounts"])
@pytest.mark.parametrize(
    ("state", "exit_code", "code"),
    [
        ("COMPLETED", "0:0", 0),
        ("NODE_FAIL", "0:0", 69),
        ("NODE_FAIL", "1:0", 1),
        ("BOOT_FAIL", "0:0", 69),
        ("CANCELLED", "0:0", 143),
        ("CANCELLED by 1000", "0:0", 143),
        ("CANCELLED", "0:15", 143),
        ("PREEMPTED", "0:0", 143),
        ("TIMEOUT", "0:0", 143),
        ("DEADLINE", "0:0", 143),
        ("OUT_OF_MEMORY", "0:125", 137),
        ("OUT_OF_MEMORY", "0:0", 137),
        ("FAILED", "0:0", 1),
    ],
)
def test_a_job_ends_with_0_only_if_slurm_says_that_it_is_complete(
    put: Any, capsys: pytest.CaptureFixture[str], is_gone: bool, state: str, exit_code: str, code: int
) -> None:
    shown = GONE if is_gone else (0, f"JobId=7 JobState={state} Reason=None ExitCode={exit_code}", "")
    put(squeue=[GONE], scontrol=[shown], sacct=[(0, f"{state}|{exit_code}\n", "")])
    assert client.wait_for_job("7", OPTIONS()) == code
    said = capsys.readouterr().err
    assert (f"7: Slurm says {state.split()[0]}: " in said) is (state not in ("COMPLETED", "FAILED"))


@pytest.mark.parametrize(
    ("second", "code"), [("COMPLETED ExitCode=0:0", 0), ("NODE_FAIL ExitCode=0:0", 69), ("CANCELLED ExitCode=0:9", 137)]
)
def test_a_component_that_did_not_end_well_is_the_jobs_end(put: Any, second: str, code: int) -> None:
    shown = f"JobId=7 JobState=COMPLETED ExitCode=0:0\nJobId=8 HetJobOffset=1 JobState={second}\n"
    put(squeue=[(0, "COMPLETED|None\nCOMPLETED|None\n", "")], scontrol=[(0, shown, "")])
    assert client.wait_for_job("7", OPTIONS()) == code


def test_a_job_that_starts_again_while_its_end_is_read_has_not_ended(put: Any) -> None:
    cluster = put(
        squeue=[(0, "NODE_FAIL|None\n", ""), (0, "PENDING|BeginTime\n", ""), (0, "COMPLETED|None\n", "")],
        scontrol=[(0, "JobId=7 JobState=PENDING ExitCode=0:0", ""), (0, "JobId=7 JobState=COMPLETED ExitCode=0:0", "")],
        sacct=[(0, "PENDING|0:0\n", "")],
    )
    assert client.wait_for_job("7", OPTIONS()) == 0
    assert cluster.pauses == 2


def test_why_a_job_waits_is_told_once_with_what_to_do(put: Any, capsys: pytest.CaptureFixture[str]) -> None:
    put(
        squeue=[(0, f"PENDING|{why}\n", "") for why in ("None", "Priority", "PartitionTimeLimit", "PartitionTimeLimit")]
        + [(0, "COMPLETED|None\n", "")],
        scontrol=[(0, "JobId=7 JobState=COMPLETED ExitCode=0:0", "")],
    )
    assert client.wait_for_job("7", OPTIONS()) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert first == "dlc: 7 waits: Priority"
    assert second.startswith("dlc: 7 waits: PartitionTimeLimit; a longer time than the partition allows; ")


@pytest.mark.parametrize("told", ["", "None assigned", "COMPLETED|", "RUNNING|0:0"])
def test_a_job_of_which_nobody_knows_the_end_is_an_error(put: Any, told: str) -> None:
    put(squeue=[GONE], scontrol=[GONE], sacct=[(0, told, "")])
    with pytest.raises(DlcError, match="7: expected state and exit code of a job that has ended, found "):
        client.wait_for_job("7", OPTIONS())


def test_a_controller_that_stays_busy_with_an_ended_job_is_an_error(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONTROLLER_SECONDS", -1.0)
    put(squeue=[GONE], scontrol=[BUSY], sacct=[(1, "", "no accounts")])
    with pytest.raises(DlcError, match="7: expected how the job has ended, found no word of it"):
        client.wait_for_job("7", OPTIONS())


def test_a_job_goes_on_while_a_component_runs_or_the_controller_is_busy(put: Any) -> None:
    cluster = put(
        squeue=[
            (0, "RUNNING|None\nPENDING|Priority\n", ""),
            BUSY,
            (0, "COMPLETED|None\nCOMPLETING|None\n", ""),
            (0, "COMPLETED|None\nFAILED|NonZeroExitCode\n", ""),
        ],
        scontrol=[(0, "JobState=FAILED ExitCode=1:0", "")],
    )
    assert client.wait_for_job("7", OPTIONS()) == 1
    assert cluster.pauses == 3


def test_a_controller_that_stays_away_is_named_with_the_remedy(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONTROLLER_SECONDS", -1.0)
    put(squeue=[BUSY])
    with pytest.raises(ProcessError, match=r"squeue: .*Unable to contact slurm controller") as caught:
        client.wait_for_job("7", OPTIONS())
    assert caught.value.remedy == "the controller does not answer: `scontrol ping`"


def test_a_log_is_where_the_controller_says_and_is_followed_to_the_jobs_end(put: Any, tmp_path: Path) -> None:
    log = tmp_path / "slurm-7.out"
    cluster = put(
        squeue=[(0, "RUNNING|None", ""), (0, "COMPLETED|None", "")],
        scontrol=[(0, f"JobId=7 StdOut={log} StdErr=/x", "")],
    )
    out = io.StringIO()
    cluster.on_pause = lambda: log.write_bytes(b"epoch 1\n\xff\n")
    client.print_logs("7", OPTIONS(), out, follow=True)
    assert out.getvalue() == "epoch 1\n\ufffd\n"
    client.print_logs("7", OPTIONS(), out, follow=False)
    assert out.getvalue() == 2 * "epoch 1\n\ufffd\n"


def test_a_log_that_nobody_knows_is_an_error(put: Any) -> None:
    put(scontrol=[GONE])
    with pytest.raises(UsageError, match="7: expected a job of Slurm with a log, found none"):
        client.print_logs("7", OPTIONS(), io.StringIO(), follow=False)


@pytest.mark.parametrize(
    ("answer", "said", "remedy"),
    [
        ((1, "", "scancel: error: Invalid job id 7\n"), "scancel: scancel: error: Invalid job id 7", ""),
        ((1, "on stdout", ""), "scancel: on stdout", ""),
        ((3, "", " \n"), "scancel: exit code 3", ""),
        ((1, "", "Unable to contact slurm controller"), "scancel: Unable to", "`scontrol ping`"),
    ],
)
def test_a_program_that_fails_is_named_with_its_words(
    put: Any, answer: tuple[int, str, str], said: str, remedy: str
) -> None:
    put(scancel=[answer])
    with pytest.raises(ProcessError) as caught:
        client.stop_job("7", OPTIONS())
    assert caught.value.message.startswith(said)
    assert remedy in caught.value.remedy


def test_without_slurm_the_program_is_named(put: Any) -> None:
    put()
    with pytest.raises(HostError, match="scancel: expected Slurm's program on PATH, found none"):
        client.stop_job("7", OPTIONS())
