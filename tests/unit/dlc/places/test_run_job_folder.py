"""Each host's folder is laid out before a job and emptied into the results after it; no file is lost on the way."""

from __future__ import annotations

import os
import resource
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from dlc.core.errors import DiskError, DlcError
from dlc.places.local import job_folder
from dlc.places.local.job import Group, Job
from dlc.places.local.job_folder import collect_results, remove_folders, write_folders, write_host_folder
from dlc.places.local.lifecycle import ContainerState, find_first_failure, parse_moment
from dlc.places.local.run import _summarize, _write_reasons_of_killed, report_results, translate_paths


def test_paths_in_a_hosts_message_are_those_of_this_machine(tmp_path: Path) -> None:
    data, checkpoints = tmp_path / "data", tmp_path / "saved"
    job = replace(two_hosts(tmp_path), channels={"training": data}, checkpoints=checkpoints)
    inside = "/opt/ml/input/data/training/a.csv, /opt/ml/checkpoints, /opt/ml/output/data/log.txt, /opt/ml/model: "
    here = f"{data}/a.csv, {checkpoints}, {job.folder}/output/log.txt, {job.folder}/model: "
    other = "see /opt/ml/output/failure and /opt/ml2"
    told = translate_paths(inside + other, job, "algo-2")
    assert told == f"{here}see {job.opt_ml('algo-2')}/output/failure and /opt/ml2"


def test_of_a_job_that_never_started_no_folder_stays_but_one_that_holds_something_else(tmp_path: Path) -> None:
    for folder, stays in ((tmp_path / "a/dlc-jobs/j", False), (tmp_path / "b", True)):
        job = replace(two_hosts(tmp_path), folder=folder)
        if stays:
            folder.mkdir()
            (folder / "notes").touch()
        write_folders(job)
        remove_folders(job)
        assert folder.exists() == stays
        assert not (folder / "hosts").exists()
    assert not (tmp_path / "a/dlc-jobs").exists()


def two_hosts(folder: Path, *code: Path) -> Job:
    return Job("j", "image", folder / "results", (Group("all", ("algo-1", "algo-2")),), code, program="train.py")


def write(job: Job, host: str, **files: str) -> None:
    for name, text in files.items():
        path = job.opt_ml(host) / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_every_host_has_its_own_copy_of_the_code(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("train.py", "package/model.py", ".git/config", "native/.git/config", "package/__pycache__/model.pyc"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    job = two_hosts(tmp_path, source)
    write_folders(job)
    for host in job.hosts:
        assert contents(job.opt_ml(host) / "code") == {
            name: name for name in ("train.py", "package/model.py", "native/.git/config")
        }


def test_pipes_and_sockets_among_the_code_are_left_out(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").touch()
    os.mkfifo(source / "debugger.pipe")
    os.mknod(source / "editor.sock", stat.S_IFSOCK | 0o600)
    job = two_hosts(tmp_path, source)
    write_folders(job)
    assert sorted(path.name for path in (job.opt_ml("algo-1") / "code").iterdir()) == ["train.py"]


def test_code_that_cannot_be_copied_is_one_error_with_the_file_and_the_reason(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "weights.bin").write_bytes(b"x" * 100_000)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(DlcError) as caught:
            write_folders(two_hosts(tmp_path, source))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.message.startswith(f"{source / 'weights.bin'}: not copied to {tmp_path}")
    assert "File too large" in caught.value.message


def test_code_that_the_disk_cannot_hold_is_said_to_fill_the_disk(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "weights.bin").write_bytes(b"x")
    job = two_hosts(tmp_path, source)
    code = job.opt_ml("algo-1") / "code"
    code.mkdir(parents=True)
    (code / "weights.bin").symlink_to("/dev/full")
    with pytest.raises(DiskError, match="No space left on device") as caught:
        write_host_folder(job, "algo-1")
    assert "--output" in caught.value.remedy


def test_results_that_lie_among_the_code_are_not_copied_with_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    for number in ("1", "2"):
        job = replace(two_hosts(tmp_path, tmp_path), folder=tmp_path / "dlc-jobs" / number)
        write_folders(job)
        assert contents(job.opt_ml("algo-1") / "code") == {"train.py": ""}


def test_the_results_of_another_job_are_not_mixed_with_this_ones(tmp_path: Path) -> None:
    write_folders(two_hosts(tmp_path))
    with pytest.raises(DlcError, match="without the results of another job"):
        write_folders(two_hosts(tmp_path))


def test_a_folder_for_checkpoints_is_made_and_keeps_what_an_earlier_job_wrote(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    for number in ("1", "2"):
        write_folders(replace(two_hosts(tmp_path), folder=tmp_path / number, checkpoints=kept))
        (kept / number).touch()
    assert contents(kept) == {"1": "", "2": ""}


def list_stays(job: Job) -> list[str]:
    return report_results(job, collect_results(job))


def test_models_and_outputs_of_all_hosts_come_together(tmp_path: Path) -> None:
    job = two_hosts(tmp_path)
    write(job, "algo-1", model__a="1", model__deep__b="2", output__data__metrics="3", output__failure="why")
    write(job, "algo-2", model__c="4", model__deep__d="5")
    assert list_stays(job) == []
    assert contents(job.folder / "model") == {"a": "1", "deep/b": "2", "c": "4", "deep/d": "5"}
    assert contents(job.folder / "output") == {"metrics": "3"}
    assert (job.opt_ml("algo-1") / "output/failure").read_text() == "why"


def test_of_files_with_one_name_the_first_hosts_counts_and_the_other_stays_and_is_named(tmp_path: Path) -> None:
    job = two_hosts(tmp_path)
    write(job, "algo-1", model__weights="first", model__same="same", model__x="a file")
    write(job, "algo-2", model__weights="second", model__same="same", model__x__y="below a folder")
    lines = list_stays(job)
    assert contents(job.folder / "model") == {"weights": "first", "same": "same", "x": "a file"}
    assert (job.opt_ml("algo-2") / "model/weights").read_text() == "second"
    assert (job.opt_ml("algo-2") / "model/x/y").read_text() == "below a folder"
    assert [line.split()[0] for line in lines] == ["hosts/algo-2/model/weights", "hosts/algo-2/model/x"]


def test_a_link_is_moved_as_a_link(tmp_path: Path) -> None:
    job = two_hosts(tmp_path)
    write(job, "algo-1", model__step_9__weights="w")
    (job.opt_ml("algo-1") / "model/latest").symlink_to("step_9")
    assert list_stays(job) == []
    assert (job.folder / "model/latest").readlink() == Path("step_9")
    assert (job.folder / "model/latest/weights").read_text() == "w"


def ended(code: int, at: str) -> ContainerState:
    return ContainerState(
        started=True, running=False, pid=0, exit_code=code, ended=parse_moment(at), out_of_memory=False
    )


def test_the_first_failure_decides_and_a_success_before_it_does_not() -> None:
    states = {
        "algo-1": ended(0, "2026-11-22T08:00:00.1Z"),
        "algo-2": ended(69, "2026-11-22T08:00:01.25Z"),
        "algo-3": ended(7, "2026-11-22T08:00:01.249999999Z"),
    }
    assert find_first_failure(states) == "algo-3"
    assert find_first_failure({"algo-1": states["algo-1"]}) == ""


@pytest.mark.parametrize(
    ("earlier", "later"),
    [("08:00:01.1Z", "08:00:01.12Z"), ("08:00:01Z", "08:00:01.000000001Z"), ("08:00:01.9Z", "08:00:02Z")],
)
def test_times_of_the_engine_sort_whatever_their_number_of_digits(earlier: str, later: str) -> None:
    assert parse_moment(f"2026-11-22T{earlier}") < parse_moment(f"2026-11-22T{later}")


def test_a_failed_job_ends_with_the_cause_the_error_and_the_path_of_the_whole_reason(tmp_path: Path) -> None:
    job = two_hosts(tmp_path)
    state = ContainerState(True, False, 0, 1, parse_moment("2026-11-20T10:00:00Z"), out_of_memory=False)
    reason = "worker rank 1 on algo-2 exited with code 1\nTraceback ...\nValueError: no data\n"
    write(job, "algo-2", output__failure=reason + "\n" * 1024 + "all of it\n")
    said = _summarize(job, {"algo-2": state}, ended_by_itself=True).splitlines()
    path = job.opt_ml("algo-2") / "output/failure"
    assert said[1:4] == [
        "  worker rank 1 on algo-2 exited with code 1",
        "  ValueError: no data",
        f"  the whole reason: {path}",
    ]
    write(job, "algo-2", output__failure="a line\n")
    assert _summarize(job, {"algo-2": state}, ended_by_itself=True).count("a line") == 1
    path.unlink()
    assert "  algo-2 failed first" in _summarize(job, {"algo-2": state}, ended_by_itself=True)


def test_a_host_whose_launcher_was_killed_gets_its_failure_file_here(tmp_path: Path) -> None:
    """A script's `kill -9 -1` leaves nobody in the container who could write it."""
    job = two_hosts(tmp_path)
    state = ContainerState(True, False, 0, 137, parse_moment("2026-11-20T10:00:00Z"), out_of_memory=False)
    states = {"algo-1": replace(state, exit_code=69), "algo-2": state}
    write(job, "algo-1", output__failure="algo-2 vanished\n")
    _write_reasons_of_killed(job, states)
    path = job.opt_ml("algo-2") / "output/failure"
    assert path.read_text() == "all was killed on algo-2, the launcher too (`kill -9 -1` by a script, `docker kill`)\n"
    assert (job.opt_ml("algo-1") / "output/failure").read_text() == "algo-2 vanished\n"
    said = _summarize(job, {"algo-2": state}, ended_by_itself=True)
    assert f"  {path.read_text()}  the whole reason: {path}\n" in said
    path.unlink()
    _write_reasons_of_killed(job, {"algo-2": replace(state, out_of_memory=True)})
    assert path.read_text() == "all was killed on algo-2, the launcher too (it ran out of memory)\n"
    path.write_text("the launcher's own word\n")
    _write_reasons_of_killed(job, states)
    assert path.read_text() == "the launcher's own word\n"


def test_a_job_whose_folders_cannot_all_be_made_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").touch()
    job = replace(two_hosts(tmp_path, tmp_path / "train.py"), folder=tmp_path / "dlc-jobs" / "j")
    make = job_folder.write_host_folder

    def fill_the_disk(of: Job, host: str) -> Path:
        if host == "algo-2":
            raise DiskError("full")
        return make(of, host)

    monkeypatch.setattr(job_folder, "write_host_folder", fill_the_disk)
    with pytest.raises(DiskError):
        write_folders(job)
    assert not job.folder.parent.exists()
