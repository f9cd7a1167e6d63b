"""Where the user's code comes from, and how it gets into the code directory without overwriting what is there."""

from __future__ import annotations

import os

from launch import signals
from launch.base.compat import NamedTuple
from launch.base.errors import CANNOT_CREATE, NO_INPUT, LaunchError
from launch.base.paths import DEFAULT_BASE, Paths
from launch.base.process_spec import Decision
from launch.job.hyperparameters import Job

IN_PLACE, DIRECTORY, ARCHIVE, FILE, S3 = "in place", "directory", "archive", "file", "s3"

SETTING = "sagemaker_submit_directory"
CODE_CHANNEL = "code"
# What the SDK calls the archive it puts into the code channel
ARCHIVE_NAME = "sourcedir.tar.gz"


class Source(NamedTuple):
    """The code of the job before it is in the code directory."""

    # IN_PLACE, DIRECTORY, ARCHIVE, FILE or S3
    kind: str
    # A path or an s3:// URL
    location: str
    why: str

    @property
    def decision(self) -> Decision:
        return Decision(f"code {self.kind}: {self.location}", self.why)

    def visible_folder(self, paths: Paths) -> str:
        """Return a folder that shows the code before it is put in place: the code directory unless it is copied."""
        return self.location if self.kind == DIRECTORY else paths.code


def locate_code(job: Job, paths: Paths) -> Source:
    """Return where the code comes from: a code directory that is not empty, before all else.

    SageMaker's toolkit never fills it twice, and an image may bring its code along.

    Raises LaunchError if the stated source does not exist.
    """
    stated = _relocate(job.text(SETTING), paths)
    if _list_names(paths.code):
        other = stated and stated.rstrip("/") != paths.code
        why = f"it is not empty, so {SETTING} {stated} is not used" if other else "it holds the code"
        return Source(IN_PLACE, paths.code, why)
    if stated.startswith("s3://"):
        return Source(S3, stated, SETTING)
    if stated and stated.rstrip("/") != paths.code:
        return _stated_source(stated)
    channel = paths.channel(CODE_CHANNEL)
    names = _list_names(channel)
    if names == [ARCHIVE_NAME]:
        return Source(ARCHIVE, f"{channel}/{ARCHIVE_NAME}", "the code channel")
    if names:
        return Source(DIRECTORY, channel, "the code channel")
    return Source(IN_PLACE, paths.code, "nothing else was stated")


def put_code_in_place(source: Source, paths: Paths, download: str = "") -> tuple[str, ...]:
    """Fill the code directory, which is empty unless the source is IN_PLACE; warnings about what was left out.

    `download` is the file that an S3 source was fetched to. Raises LaunchError and StopRequested, leaving the directory
    empty: half of the code would pass for all of it at the next start.
    """
    if source.kind == IN_PLACE:
        return ()
    os.makedirs(paths.code, exist_ok=True)
    try:
        # An archive may be large, and a channel lie on a mount that hangs
        with signals.Interrupting():
            return _fill_folder(source, paths, download)
    except OSError as error:
        _empty_folder(paths.code)
        raise LaunchError(
            CANNOT_CREATE, "not copied", where=paths.code, expected=f"a copy of {source.location}", found=str(error)
        ) from error
    except BaseException:
        _empty_folder(paths.code)
        raise


def _fill_folder(source: Source, paths: Paths, download: str) -> tuple[str, ...]:
    import shutil

    if source.kind in (ARCHIVE, S3):
        from launch.job.archive import unpack_archive

        return unpack_archive(download or source.location, paths.code)
    if source.kind == DIRECTORY:
        shutil.copytree(source.location, paths.code, symlinks=True, dirs_exist_ok=True)
    else:
        shutil.copy2(source.location, paths.code)
    return ()


def _empty_folder(folder: str) -> None:
    import shutil

    for name in _list_names(folder):
        path = f"{folder}/{name}"
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)


def _stated_source(location: str) -> Source:
    if os.path.isdir(location):
        return Source(DIRECTORY, location, SETTING)
    if not os.path.isfile(location):
        raise LaunchError(
            NO_INPUT, location, where=SETTING, expected="a folder, a tar file or an s3:// URL", found="nothing there"
        )
    archive = location.endswith((".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tar.xz")) or _is_archive(location)
    return Source(ARCHIVE if archive else FILE, location, SETTING)


def _is_archive(path: str) -> bool:
    import tarfile

    try:
        return tarfile.is_tarfile(path)
    except OSError:
        return False


def _relocate(path: str, paths: Paths) -> str:
    """Return a path below /opt/ml as it is called if SAGEMAKER_BASE_DIR has moved it."""
    if path == DEFAULT_BASE or path.startswith(f"{DEFAULT_BASE}/"):
        return paths.base + path[len(DEFAULT_BASE) :]
    return path


def _list_names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
