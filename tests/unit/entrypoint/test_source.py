"""Where the user's code comes from, and that putting it in place overwrites and lets out nothing."""

from __future__ import annotations

import io
import os
import stat
import sys
import tarfile
from pathlib import Path

import pytest

from harness.job_folder import JobFolder
from launch.base.errors import LaunchError
from launch.base.paths import Paths
from launch.job import source
from launch.job.archive import unpack_archive
from launch.job.source import ARCHIVE, DIRECTORY, FILE, IN_PLACE, S3
from launch.plan.host_plan import make_host_plan
from launch.plan.request import read_request


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path / "ml")


def locate(job: JobFolder) -> source.Source:
    request = read_request(job.environ)
    return source.locate_code(request.job, request.paths)


def put(job: JobFolder) -> tuple[str, ...]:
    return source.put_code_in_place(locate(job), Paths(str(job.base)))


def archive(path: Path, *members: tuple[str, str], mode: str = "w:gz") -> Path:
    """A tar file of (name, content); a content of "-> x" makes a symbolic link, "=> x" a hard one, "!" a pipe."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, content in members:
            member = tarfile.TarInfo(name)
            if content.startswith(("-> ", "=> ")):
                member.type = tarfile.SYMTYPE if content[0] == "-" else tarfile.LNKTYPE
                member.linkname = content[3:]
            elif content == "!":
                member.type = tarfile.FIFOTYPE
            else:
                member.size = len(content)
                member.mode = 0o6777
            tar.addfile(member, io.BytesIO(content.encode()))
    return path


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_code_that_is_already_there_is_used_as_it_is(job: JobFolder) -> None:
    job.code().hyperparameters(sagemaker_submit_directory="s3://bucket/sourcedir.tar.gz")
    found = locate(job)
    assert (found.kind, put(job)) == (IN_PLACE, ())
    assert "s3://bucket/sourcedir.tar.gz is not used" in found.why


def test_the_platforms_own_spelling_of_the_code_directory_is_no_source(job: JobFolder) -> None:
    job.hyperparameters(sagemaker_submit_directory="/opt/ml/code")
    assert locate(job).kind == IN_PLACE


def test_an_s3_url_is_a_download(job: JobFolder) -> None:
    job.hyperparameters(sagemaker_submit_directory="s3://my/bucket/sourcedir.tar.gz")
    assert locate(job)[:2] == (S3, "s3://my/bucket/sourcedir.tar.gz")


def test_a_folder_is_copied_with_its_links_and_stays_as_it_is(job: JobFolder, tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    (origin / "pkg").mkdir(parents=True)
    (origin / "train.py").write_text("1")
    (origin / "pkg/data").symlink_to("../train.py")
    job.hyperparameters(sagemaker_submit_directory=str(origin))
    assert locate(job).kind == DIRECTORY
    put(job)
    assert (job.base / "code/pkg/data").is_symlink()
    assert files(job.base / "code") == files(origin)


def test_a_single_file_is_copied(job: JobFolder, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("1")
    job.hyperparameters(sagemaker_submit_directory=str(tmp_path / "train.py"))
    assert locate(job).kind == FILE
    put(job)
    assert files(job.base / "code") == {"train.py": "1"}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_an_archive_of_any_compression_is_unpacked(job: JobFolder, tmp_path: Path, mode: str) -> None:
    path = archive(tmp_path / "code.tar", ("./train.py", "1"), ("pkg/x.py", "2"), mode=mode)
    job.hyperparameters(sagemaker_submit_directory=str(path))
    assert locate(job).kind == ARCHIVE
    assert put(job) == ()
    assert files(job.base / "code") == {"train.py": "1", "pkg/x.py": "2"}


def test_the_code_channel_may_be_a_folder_or_hold_the_archive(job: JobFolder) -> None:
    channel = job.base / "input/data/code"
    channel.mkdir(parents=True)
    (channel / "train.py").write_text("1")
    assert locate(job)[:2] == (DIRECTORY, str(channel))
    (channel / "train.py").unlink()
    archive(channel / "sourcedir.tar.gz", ("train.py", "2"))
    assert locate(job).kind == ARCHIVE
    put(job)
    assert files(job.base / "code") == {"train.py": "2"}


def test_a_submit_directory_that_is_not_there_is_an_error(job: JobFolder) -> None:
    job.hyperparameters(sagemaker_submit_directory="/nowhere/code.tar.gz")
    with pytest.raises(LaunchError, match="sagemaker_submit_directory: /nowhere"):
        locate(job)


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "..\\evil", "./../../evil"])
def test_a_member_that_climbs_out_lands_inside(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "a/b/code"
    folder.mkdir(parents=True)
    unpack_archive(str(archive(tmp_path / "x.tar", (name, "x"))), str(folder))
    assert list(files(tmp_path / "a")) in (["b/code/evil"], ["b/code/etc/evil"], ["b/code/a/evil"])


@pytest.mark.parametrize(
    "members",
    [
        [("out", "-> /etc"), ("out/passwd", "x")],
        [("out", "-> ../.."), ("out/passwd", "x")],
        [("in", "-> ."), ("deep", "-> in/../..")],
        [("out", "=> /etc/passwd")],
        [("out", "=> ../../passwd")],
        [("pipe", "!")],
        [("d/e/f", "1"), ("on", "-> d/e"), ("out", "-> on/../../passwd"), ("on", "-> d")],
        [("d/f", "1"), ("out", "-> p/q/on/../../../passwd"), ("p/q/on", "-> ../../d")],
        [("d/e/f", "1"), ("on", "-> d/e"), ("out", "-> on/../.."), ("on", "-> d"), ("out/passwd", "x")],
        [("passwd", "1"), ("d/e/in", "-> ../../passwd"), ("d/out", "=> d/e/in"), ("out", "=> d/e/in")],
    ],
)
def test_links_that_lead_out_and_special_files_are_left_out_with_a_warning(
    tmp_path: Path, members: list[tuple[str, str]]
) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (tmp_path / "passwd").write_text("secret")
    warnings = unpack_archive(str(archive(tmp_path / "x.tar", *members)), str(folder))
    # From Python 3.14 on os.link follows a symbolic link: both names of the last archive are of the file inside.
    assert warnings or (sys.version_info >= (3, 14) and members[-1] == ("out", "=> d/e/in"))
    assert (tmp_path / "passwd").read_text() == "secret"
    assert all(Path(os.path.realpath(path)).is_relative_to(folder) for path in folder.rglob("*"))
    assert not any(stat.S_ISFIFO(path.lstat().st_mode) for path in folder.rglob("*"))


def test_a_link_in_the_image_does_not_lead_a_member_out(tmp_path: Path) -> None:
    folder, outside = tmp_path / "code", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (folder / "link").symlink_to(outside)
    unpack_archive(str(archive(tmp_path / "x.tar", ("link/file", "x"))), str(folder))
    assert list(outside.iterdir()) == []
    assert (folder / "link").is_symlink()


def test_links_within_the_code_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    members = [("pkg/a", "1"), ("pkg/b", "-> a"), ("c", "-> pkg/b"), ("d", "=> pkg/a")]
    assert unpack_archive(str(archive(tmp_path / "x.tar", *members)), str(folder)) == ()
    assert set(files(folder).values()) == {"1"}
    assert len(files(folder)) == 4


@pytest.mark.parametrize("link", ["-> a", "=> a"])
def test_of_a_name_that_is_there_twice_the_last_counts_and_nothing_is_written_through_a_link(
    tmp_path: Path, link: str
) -> None:
    members = [("a", "1"), ("b", link), ("b", "2"), ("c", "3"), ("c", link), ("c", link)]
    folder = tmp_path / "code"
    folder.mkdir()
    assert unpack_archive(str(archive(tmp_path / "x.tar", *members)), str(folder)) == ()
    assert files(folder) == {"a": "1", "b": "2", "c": "1"}


def test_a_file_that_is_named_twice_and_so_a_hard_link_to_itself_stays(tmp_path: Path) -> None:
    members = [("a", "1"), ("./a", "=> a"), ("b", "=> ./a"), ("b", "=> a")]
    folder = tmp_path / "code"
    folder.mkdir()
    assert unpack_archive(str(archive(tmp_path / "x.tar", *members)), str(folder)) == ()
    assert files(folder) == {"a": "1", "b": "1"}


@pytest.mark.parametrize("to", ["a", "later", "pkg"])
def test_a_symbolic_link_that_is_named_twice_stays_too(tmp_path: Path, to: str) -> None:
    members = [("a", "1"), ("pkg/b", "2"), ("link", f"-> {to}"), ("./link", "=> link")]
    folder = tmp_path / "code"
    folder.mkdir()
    assert unpack_archive(str(archive(tmp_path / "x.tar", *members)), str(folder)) == ()
    assert str((folder / "link").readlink()) == to


def test_a_hard_link_to_what_is_not_there_says_so_and_replaces_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    [warning] = unpack_archive(str(archive(tmp_path / "x.tar", ("a", "1"), ("a", "=> none"))), str(folder))
    assert "which is no file before it in the archive" in warning
    assert files(folder) == {"a": "1"}


def test_set_uid_bits_and_foreign_write_permission_are_not_unpacked(tmp_path: Path) -> None:
    unpack_archive(str(archive(tmp_path / "x.tar", ("run", "x"))), str(tmp_path))
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o755


@pytest.mark.parametrize("content", [b"", b"no tar at all", b"\x1f\x8b\x08\x00broken gzip data"])
def test_what_is_no_archive_is_an_error_that_leaves_no_code(job: JobFolder, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "sourcedir.tar.gz"
    path.write_bytes(content)
    job.hyperparameters(sagemaker_submit_directory=str(path))
    with pytest.raises(LaunchError, match="not unpacked"):
        put(job)
    assert list((job.base / "code").iterdir()) == []


def test_a_truncated_archive_leaves_no_half_of_the_code_behind(job: JobFolder, tmp_path: Path) -> None:
    whole = archive(tmp_path / "whole.tar.gz", ("a.py", "1" * 50_000), ("b.py", os.urandom(30_000).hex()))
    path = tmp_path / "sourcedir.tar.gz"
    path.write_bytes(whole.read_bytes()[:20_000])
    job.hyperparameters(sagemaker_submit_directory=str(path))
    with pytest.raises(LaunchError, match="not unpacked"):
        put(job)
    assert list((job.base / "code").iterdir()) == []


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
def test_an_archive_that_is_broken_in_the_middle_is_an_error_that_leaves_no_code(
    job: JobFolder, tmp_path: Path, mode: str
) -> None:
    members = [(f"{number}.py", os.urandom(20_000).hex()) for number in range(10)]
    path = archive(tmp_path / "sourcedir.tar.gz", *members, mode=mode)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    job.hyperparameters(sagemaker_submit_directory=str(path))
    with pytest.raises(LaunchError, match="not unpacked"):
        put(job)
    assert list((job.base / "code").iterdir()) == []


def test_explain_sees_the_code_that_it_does_not_copy(job: JobFolder, tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    origin.mkdir()
    (origin / "run.sh").write_text("#!/bin/bash -e\n")
    job.hyperparameters(sagemaker_program="run.sh", sagemaker_submit_directory=str(origin))
    request = read_request(job.environ)
    found = locate(job)
    decided = make_host_plan(request, found.visible_folder(request.paths))
    assert decided.launch.processes[0].argv == ("/bin/bash", "-e", "./run.sh")
    assert not (job.base / "code").exists()
