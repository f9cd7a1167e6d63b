"""dlc ps, logs, exec, shell, clean: what they make of claims, containers and folders; nothing is started."""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dlc.__main__ import main
from dlc.cli import ps
from dlc.cli.clean import LONGEST_REBUILD, choose_left
from dlc.cli.exec import choose_host, split_host
from dlc.cli.shell import find_gpus, find_user, make_words
from dlc.core.errors import DlcError, UsageError
from dlc.core.process import Completed
from dlc.engine.docker_client import Engine
from dlc.places.local.ended_jobs import MOST_KEPT, end_claim, read_ended_claims
from dlc.places.local.job_log import print_containers, print_log
from dlc.places.local.known_jobs import ENDED, FOREIGN, LEFT, RUNS, KnownJob, find_containers, list_jobs

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


class Answering(Engine):
    """An engine whose client prints what the test says, and keeps what it was asked."""

    def __init__(self, *lines: str, address: str = "unix:///a.sock") -> None:
        super().__init__(address, "DOCKER_HOST", "1", containerd_store=True)
        object.__setattr__(self, "lines", lines)

    def docker(self, *words: str, **_: Any) -> Completed:
        return Completed(words, 0, "".join(f"{line}\n" for line in self.__dict__["lines"]), "")

    def docker_lines(self, *words: str, on_line: Any, **_: Any) -> int:
        for line in ("one", "two"):
            on_line(f"{line} of {words[-1]}")
        return 0


def test_containers_are_found_by_job_and_host() -> None:
    of_a, of_b = ("a-1 dlc-a-1-algo-2 running", "a-1 dlc-a-1-algo-1 running"), ("b dlc-b-algo-1 exited",)
    engine = Answering(*of_b, "b dlc-b-tensorboard running", *of_a, "c dlc-c-tensorboard running")
    found = find_containers(engine)
    assert found == {"a-1": {"algo-1": "running", "algo-2": "running"}, "b": {"algo-1": "exited"}}


def test_jobs_come_from_claims_and_from_labels(tmp_path: Path) -> None:
    facts = {"image": "dlc/x:1", "folder": "/r", "pid": 7, "started": "2026-11-20T11:00:00+00:00", "grace": 30}
    (tmp_path / "a").write_text(f"unix:///a.sock\n{json.dumps(facts)}\n")
    (tmp_path / "elsewhere").write_text(f"unix:///b.sock\n{json.dumps(facts)}\n")
    (tmp_path / "of-an-older-dlc").write_text("unix:///a.sock")
    engine = Answering("a dlc-a-algo-1 running", "other dlc-other-algo-1 exited")
    jobs = {job.id: job for job in list_jobs(tmp_path, engine)}
    assert {name: job.state for name, job in jobs.items()} == {
        "a": LEFT, "elsewhere": LEFT, "of-an-older-dlc": LEFT, "other": FOREIGN
    }  # fmt: skip
    assert {name: job.hosts for name, job in jobs.items()} == {
        "a": {"algo-1": "running"}, "elsewhere": None, "of-an-older-dlc": {}, "other": {"algo-1": "exited"}
    }  # fmt: skip
    assert (jobs["a"].image, jobs["a"].pid) == ("dlc/x:1", 7)
    assert {job.hosts is None for job in list_jobs(tmp_path, None)} == {True}


@pytest.mark.parametrize(
    ("started", "age"),
    [
        ("2026-11-20T11:59:59+00:00", "1 s"), ("2026-11-20T11:57:00+00:00", "3 min"),
        ("2026-11-20T09:00:00+00:00", "3 h"), ("2026-11-18T09:00:00+00:00", "2 d"),
        ("2026-11-20T12:00:09+00:00", "0 s"), ("", "?"),
    ],
)  # fmt: skip
def test_ps_says_since_when_in_the_largest_unit(started: str, age: str) -> None:
    job = KnownJob("mine", RUNS, image="dlc/x:1", started=started, hosts={"algo-1": "exited", "algo-2": "running"})
    row = ps.as_text([job], NOW).splitlines()[1]
    assert re.split("  +", row) == ["mine", "runs", "1 exited, 1 running", age, "-", "dlc/x:1"]


def test_exec_takes_the_first_host_that_is_meant_and_only_one_that_runs() -> None:
    found = {"algo-10": "running", "algo-2": "running", "algo-3": "exited"}
    assert choose_host("j", "", found) == "algo-2"
    assert choose_host("j", "algo-10", found) == "algo-10"
    for host in ("algo-3", "algo-1"):
        with pytest.raises(UsageError, match="that runs, found algo-2"):
            choose_host("j", host, found)


@pytest.mark.parametrize(
    ("typed", "host", "command"),
    [
        ("", "", ""),
        ("algo-2", "algo-2", ""),
        ("ls -l --all", "", "ls -l --all"),
        ("algo-2 ls -l", "algo-2", "ls -l"),
        ("algo-2 -- ls -- -l", "algo-2", "ls -- -l"),
        ("algo-2 algo-3", "algo-2", "algo-3"),
    ],
)
def test_exec_reads_a_host_and_a_command_without_two_dashes(typed: str, host: str, command: str) -> None:
    assert split_host(typed.split(), is_marked=False) == (host, command.split())
    assert split_host(typed.split(), is_marked=True) == ("", typed.split())


@pytest.mark.parametrize("word", ["algo2", "Algo-2", "2", "host-1", "algo_1"])
def test_exec_takes_no_misspelt_host_for_a_command(word: str) -> None:
    with pytest.raises(UsageError, match=f"{word}: expected a host, such as algo-1, or a command"):
        split_host([word, "ls"], is_marked=False)


@pytest.mark.parametrize(
    ("words", "found"),
    [(["exec", "j", "--host", "algo-2", "ls"], "--host"), (["shell", "dlc/x:1", "--gpus", "all"], "--gpus")],
)
def test_an_option_of_dlc_is_no_command(
    words: list[str], found: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = Answering("j dlc-j-algo-1 running")
    for module in ("exec", "shell"):
        monkeypatch.setattr(
            f"dlc.cli.{module}.find_{'running_engine' if module == 'exec' else 'engine_for_job'}", lambda: engine
        )
    assert main(words) == UsageError.exit_code
    assert f"expected a command, found the option {found}" in capsys.readouterr().err


def end_job(cache: Path, name: str, folder: Path) -> None:
    (cache / "jobs").mkdir(parents=True, exist_ok=True)
    (cache / "jobs" / name).write_text(f"unix:///a.sock\n{json.dumps({'folder': str(folder), 'image': 'dlc/x:1'})}\n")
    end_claim(cache / "jobs" / name)


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a job of the background that has ended; another folder is the current one."""
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "far/dlc-jobs/mine"
    folder.mkdir(parents=True)
    (folder / "log").write_text("trained\n")
    end_job(tmp_path / "cache", "mine", folder)
    monkeypatch.chdir(tmp_path)
    return folder


def test_the_lines_of_an_ended_job_are_found_from_any_folder(ended: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("mine", str(ended)):
        assert main(["logs", word]) == 0
        assert capsys.readouterr().out == "trained\n"


def test_an_ended_job_without_lines_is_told_with_its_results(ended: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (ended / "log").unlink()
    assert main(["logs", "mine"]) == DlcError.exit_code
    said = capsys.readouterr().err
    assert "mine: expected a job of the background, found one that ended where its lines were printed" in said
    assert f"its results are in {ended}" in said


@pytest.mark.parametrize("verb", ["stop", "exec"])
def test_a_job_that_has_ended_is_told_so_and_no_other_job_is_named(
    verb: str, ended: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dlc.cli.exec.find_running_engine", lambda: Answering("theirs dlc-theirs-algo-1 running"))
    (ended.parents[2] / "cache/jobs/other").write_text("unix:///a.sock\n")
    assert main([verb, "mine"]) == UsageError.exit_code
    said = capsys.readouterr().err
    assert f"mine: expected a job that runs, found that it has ended; its results: {ended}" in said
    assert main([verb, "none"]) == UsageError.exit_code
    said += capsys.readouterr().err
    assert "none: expected a job that runs, found none of that name" in said
    assert "theirs" not in said
    assert "other" not in said


def test_ps_lists_own_jobs_and_with_all_those_of_others_and_ended_ones(
    ended: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (ended.parents[2] / "cache/jobs/own").write_text("unix:///a.sock\n")
    engine = Answering("theirs dlc-theirs-algo-1 running", "own dlc-own-algo-1 running")
    monkeypatch.setattr("dlc.cli.ps.find_engine", lambda: engine)
    assert main(["ps"]) == 0
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines()] == ["JOB", "own"]
    assert said.err == "dlc: others have 1 on this engine: dlc ps --all\n"
    assert main(["ps", "--all", "--json"]) == 0
    said = capsys.readouterr()
    states = {job["id"]: job["state"] for job in json.loads(said.out)}
    assert (states, said.err) == ({"own": LEFT, "theirs": FOREIGN, "mine": ENDED}, "")


def test_ended_jobs_are_known_as_long_as_their_results_are_there(tmp_path: Path) -> None:
    for number in range(MOST_KEPT + 3):
        end_job(tmp_path, f"job-{number}", tmp_path / f"results-{number % 2}")
    (tmp_path / "results-0").mkdir()
    known = read_ended_claims(tmp_path / "jobs")
    assert len([*(tmp_path / "ended-jobs").iterdir()]) == MOST_KEPT
    assert {int(name.partition("-")[2]) % 2 for name in known} == {0}
    (tmp_path / "results-0").rmdir()
    assert read_ended_claims(tmp_path / "jobs") == {}
    (tmp_path / "ended-jobs/half").write_text('unix:///a.sock\n{"folder": "/tm')
    assert read_ended_claims(tmp_path / "jobs") == {}


def test_lines_of_containers_begin_with_their_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    print_containers(Answering(), "j", ["algo-1", "algo-2"], follow=False)
    assert capsys.readouterr().out.splitlines() == [
        "[algo-1] one of dlc-j-algo-1", "[algo-1] two of dlc-j-algo-1",
        "[algo-2] one of dlc-j-algo-2", "[algo-2] two of dlc-j-algo-2",
    ]  # fmt: skip
    print_containers(Answering(), "j", ["algo-1"], follow=True)
    assert capsys.readouterr().out == "one of dlc-j-algo-1\ntwo of dlc-j-algo-1\n"


def test_a_log_is_printed_as_it_is_and_followed_no_longer_than_its_job_runs(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"progress 1\rprogress 2\r\n\xff\n")
    out = io.StringIO(newline="")
    print_log(tmp_path / "log", tmp_path / "claim-that-is-gone", out)
    assert out.getvalue() == "progress 1\rprogress 2\r\n\ufffd\n"


def test_a_shell_has_this_folder_and_writes_files_of_its_user() -> None:
    words = make_words("dlc/x:1", Path("/home/me/a,b"), "all", "5:6", ["bash"])
    assert words[:4] == ("run", "--rm", "--pull", "never")
    assert words[-3:] == ("HOME=/tmp", "dlc/x:1", "bash")
    assert 'type=bind,"source=/home/me/a,b",target=/work' in words
    assert " --workdir /work --gpus all --user 5:6 " in " ".join(words)
    plain = make_words("dlc/x:1", Path("/a"), "", "", ["python"])
    assert not {"--gpus", "--user", "--env"} & {*plain}


def test_a_shell_has_gpus_where_the_machine_and_the_engine_have_them(tmp_path: Path) -> None:
    assert find_gpus(Answering(), tmp_path) == ""
    (tmp_path / "nvidia0").touch()
    assert find_gpus(Answering(), tmp_path) == "all"
    without = Answering()
    object.__setattr__(without, "offers_gpus", False)
    assert find_gpus(without, tmp_path) == ""


def test_a_shell_runs_as_who_asked_for_it_unless_that_is_root_or_looks_like_it() -> None:
    assert find_user(Answering('["name=seccomp"]'), 5, 6) == "5:6"
    assert find_user(Answering('["name=seccomp","name=rootless"]'), 5, 6) == ""
    assert find_user(Answering(), 0, 0) == ""


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of two ended jobs, one that runs, and one that is not a job's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "dlc-jobs"
    for name in ("ended", "running"):
        (folder / name / "hosts/algo-1/input/config").mkdir(parents=True)
        (folder / name / "hosts/algo-1/input/config/resourceconfig.json").write_text("{}")
    (folder / "refused").mkdir()
    (folder / "refused/log").write_text("dlc: no")
    (folder / "mine").mkdir()
    (tmp_path / "cache/jobs").mkdir(parents=True)
    (tmp_path / "cache/jobs/running").write_text(f"\n{json.dumps({'folder': str(folder / 'running')})}\n")
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_clean_shows_what_it_would_remove_and_asks(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = names(results)
    assert main(["clean", "--jobs"]) == UsageError.exit_code
    said = capsys.readouterr()
    assert [line.rpartition("/")[2] for line in said.out.splitlines()] == ["to remove:", "ended", "refused"]
    assert "add --yes" in said.err
    assert main(["clean", "--jobs", "--json"]) == 0
    assert [Path(each["path"]).name for each in json.loads(capsys.readouterr().out)["folders"]] == ["ended", "refused"]
    assert names(results) == before


def test_clean_removes_nothing_but_folders_of_ended_jobs(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clean", "--jobs", "--yes"]) == 0
    assert names(results) == ["mine", "running"]
    capsys.readouterr()
    assert main(["clean", "--jobs"]) == 0
    assert capsys.readouterr().out == "nothing to remove\n"


@pytest.mark.parametrize(("named", "left"), [
    (f"{NOW - LONGEST_REBUILD - timedelta(minutes=1):%Y-%m-%dT%H:%M:%S}.12345678Z", {"dlc-rebuild:a", "dlc-rebuild:b"}),
    (f"{NOW - LONGEST_REBUILD + timedelta(minutes=1):%Y-%m-%dT%H:%M:%S}+00:00", set()),
    ("0001-01-01T00:00:00Z", set()),
], ids=["a day ago", "today", "unknown"])  # fmt: skip
def test_clean_takes_the_image_of_a_rebuild_that_cannot_run_any_more(named: str, left: set[str]) -> None:
    assert choose_left([f'dlc-rebuild:a dlc-rebuild:b dlc/pytorch:2.13 "{named}"'] * 2, NOW) == left
