"""Reports of the compiler from several hosts become one page in the job's results; nothing of a rank is lost."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from dlc.places.local.job import Group, Job
from dlc.places.local.job_folder import collect_results
from dlc.places.local.run import report_results
from dlc_runtime.compiler.report.merge import merge_folder, write_rank
from harness.rank_report import rank_report

HOSTS = ("algo-1", "algo-2")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    for host in HOSTS:
        (tmp_path / "hosts" / host / "output/data").mkdir(parents=True)
    return Job("j", "image", tmp_path, (Group("all", HOSTS),), (), program="train.py")


def collect(job: Job) -> list[str]:
    return report_results(job, collect_results(job))


def report(job: Job, host: str, *ranks: int, pid: int, started: float = 0.0) -> None:
    """Write what the ranks of a host leave, and the page that they merge; each has run for 10 s."""
    folder = str(job.opt_ml(host) / "output/data/compiler")
    times = {"started": started, "written": started + 10}
    for rank in ranks:
        write_rank(folder, {**rank_report(rank), **times, "host": host, "pid": pid + rank})
    merge_folder(folder, with_page=True)


def merged(job: Job) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((job.folder / "output/compiler/report.json").read_text())
    return found


def test_the_ranks_of_all_hosts_are_on_one_page_and_no_file_stays_behind(job: Job) -> None:
    report(job, "algo-1", 0, 1, pid=100)
    report(job, "algo-2", 2, 3, pid=100)
    page = job.folder / "output/compiler/report.html"
    assert collect(job) == [f"the compiler's report of 2 hosts: {page}"]
    ranks = [(entry["rank"], entry["host"]) for entry in merged(job)["ranks"]]
    assert ranks == [(0, "algo-1"), (1, "algo-1"), (2, "algo-2"), (3, "algo-2")]
    assert merged(job)["graphs"][0]["ranks"] == [0, 1, 2, 3]
    assert "rank 3 on algo-2" in page.read_text()
    assert [path for path in (job.folder / "hosts").rglob("*") if path.is_file()] == []
    assert len([*page.parent.glob("rank-*.json")]) == 4


def test_a_host_whose_report_cannot_be_read_is_named(job: Job) -> None:
    job = Job("j", "image", job.folder, (Group("all", (*HOSTS, "algo-3")),), (), program="train.py")
    for rank, host in enumerate(HOSTS):
        report(job, host, rank, pid=100)
    cut = job.opt_ml("algo-3") / "output/data/compiler/rank-2-102.json"
    cut.parent.mkdir(parents=True)
    cut.write_text('{"steps": {')
    page = job.folder / "output/compiler/report.html"
    line, warning = collect(job)
    assert line == f"the compiler's report of 2 hosts: {page}"
    moved = page.with_name("rank-2-102.json")
    assert warning.startswith(f"warning: {moved}: expected the compiler's report of a rank of algo-3, found JSONDecode")
    assert len(merged(job)["ranks"]) == 2
    assert moved.read_text() == '{"steps": {'


def test_hosts_that_train_each_for_itself_are_told_apart(job: Job) -> None:
    for host in HOSTS:
        report(job, host, 0, pid=9)
    assert len(collect(job)) == 1
    found = merged(job)
    assert [(entry["rank"], entry["host"]) for entry in found["ranks"]] == [(0, "algo-1"), (1, "algo-2")]
    assert "Each host trained for itself. The ranks are numbered over all hosts here." in found["notes"]
    names = sorted(path.name for path in (job.folder / "output/compiler").glob("rank-*"))
    assert names == ["rank-0-9-algo-2.json", "rank-0-9.json"]


def test_a_rank_that_was_on_another_host_before_the_job_started_again_keeps_its_number(job: Job) -> None:
    report(job, "algo-1", 0, pid=9)
    report(job, "algo-2", 0, pid=9, started=60.0)
    collect(job)
    assert [(entry["rank"], entry["host"]) for entry in merged(job)["ranks"]] == [(0, "algo-1"), (0, "algo-2")]
    assert not any("for itself" in note for note in merged(job)["notes"])


def test_profiles_of_hosts_that_train_each_for_itself_are_both_results(job: Job) -> None:
    for host in HOSTS:
        folder = job.opt_ml(host) / "output/data/profile"
        folder.mkdir()
        (folder / "rank-0.json").write_text(json.dumps({"host": host, "steps": 9}))
    assert collect(job) == []
    assert {path.name for path in (job.folder / "output/profile").iterdir()} == {"rank-0.json", "rank-0-algo-2.json"}


@pytest.mark.parametrize(
    "text", ['{"steps": {}, "compile_seconds": 1}', '{"steps": {"count": "x"}', "[]", "", "[" * 200_000]
)
def test_files_that_are_no_report_are_results_like_others(text: str, job: Job) -> None:
    report(job, "algo-1", 0, pid=1)
    folder = job.opt_ml("algo-2") / "output/data/compiler"
    folder.mkdir()
    (folder / "rank-1-7.json").write_text(text)
    [line] = collect(job)
    assert line.startswith("warning: ")
    assert "algo-2" in line
    assert (job.folder / "output/compiler/rank-1-7.json").read_text() == text
    assert [entry["rank"] for entry in merged(job)["ranks"]] == [0]


def test_a_link_is_not_followed(job: Job, tmp_path: Path) -> None:
    report(job, "algo-1", 0, pid=1)
    elsewhere = tmp_path / "elsewhere"
    write_rank(str(elsewhere), rank_report(5))
    folder = job.opt_ml("algo-2") / "output/data/compiler"
    folder.mkdir()
    (folder / "rank-5-6.json").symlink_to(next(elsewhere.iterdir()))
    [line] = collect(job)
    assert "report of a rank of algo-2, found ValueError: it is a link" in line
    assert [entry["rank"] for entry in merged(job)["ranks"]] == [0]


def test_the_page_of_a_host_whose_ranks_cannot_be_read_is_kept_beside_the_merged_one(job: Job) -> None:
    job = Job("j", "image", job.folder, (Group("all", (*HOSTS, "algo-3")),), (), program="train.py")
    for rank, host in enumerate((*HOSTS, "algo-3")):
        (job.opt_ml(host) / "output/data").mkdir(parents=True, exist_ok=True)
        report(job, host, rank, pid=100)
    (job.opt_ml("algo-1") / "output/data/compiler/rank-0-100.json").write_text("")
    collect(job)
    own = json.loads((job.folder / "output/compiler/report-algo-1.json").read_text())
    assert [entry["rank"] for entry in own["ranks"]] == [0]
    assert [entry["rank"] for entry in merged(job)["ranks"]] == [1, 2]


def test_results_are_there_if_a_report_cannot_be_written_and_the_line_names_hosts_and_error(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank, host in enumerate(HOSTS):
        report(job, host, rank, pid=100)
        (job.opt_ml(host) / "model").mkdir()
        (job.opt_ml(host) / "model" / host).touch()
    # As if that module were not installed.
    monkeypatch.setitem(sys.modules, "dlc_runtime.compiler.report.merge", None)
    lines = collect(job)
    assert lines[0].startswith(
        f"warning: {job.folder}/output/compiler: the reports of algo-1, algo-2 were not merged: "
    )
    assert "ModuleNotFoundError" in lines[0]
    assert sorted(path.name for path in (job.folder / "model").iterdir()) == ["algo-1", "algo-2"]
    ranks = sorted(path.name for path in (job.folder / "output/compiler").glob("rank-*"))
    assert ranks == ["rank-0-100.json", "rank-1-101.json"]
