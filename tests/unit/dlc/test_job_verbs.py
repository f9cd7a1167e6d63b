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
from dlc.cli.exec import choose_host
from dlc.cli.shell import find_gpus, find_user, make_words
from dlc.core.errors import UsageError
from dlc.core.process import Completed
from dlc.engine.connection import Engine
from dlc.jobs.run.job_log import print_containers, print_log
from dlc.jobs.run.known_jobs import FOREIGN, LEFT, RUNS, KnownJob, find_containers, list_jobs

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
    assert re.split("  +", row) == ["mine", "runs", "1 exited, 1 running", age, "dlc/x:1"]


def test_exec_takes_the_first_host_that_is_meant_and_only_one_that_runs() -> None:
    found = {"j": {"algo-10": "running", "algo-2": "running", "algo-3": "exited"}}
    assert choose_host("j", "", found) == "algo-2"
    assert choose_host("j", "algo-10", found) == "algo-10"
    for job, host in (("j", "algo-3"), ("j", "algo-1"), ("other", "")):
        with pytest.raises(UsageError, match="that runs, found"):
            choose_host(job, host, found)


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
