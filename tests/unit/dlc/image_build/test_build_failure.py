"""image_build.buildkit_log: what a failing step printed decides how the build's failure is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc.core.errors import BaseImageError, BuildError, DiskError, DlcError, LockError, PackageIndexError
from dlc.image_build.buildkit_log import CAUSES, Progress, error_of

LOG = Path("build.log")


def failed(output: str, step: str = "[toy training 1/1] RUN /scripts/python-packages/install.sh") -> DlcError:
    """The error of a build whose one step printed this."""
    progress = Progress()
    for line in (f"#7 {step}", *(f"#7 0.5 {text}" for text in output.splitlines()), "#7 ERROR: exit code: 1"):
        progress.feed(line)
    return error_of(progress, LOG)


@pytest.mark.parametrize(
    ("output", "error", "meaning"),
    [
        ("error: Failed to download `six==1.0`\n  cause: Hash mismatch for `six==1.0`", LockError, "lock's hash"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", LockError, "lock's hash"),
        ("  cause: Because there is no version of six==1.99 and ...\nNo solution found when", LockError, "in no index"),
        ("E: Failed to fetch http://mirror/libc6.deb  404 Not Found", LockError, "in no index"),
        ("error: Request failed after 3 retries\n  cause: tcp connect error", PackageIndexError, "does not answer"),
        (
            "  cause: HTTP status server error (503 Service Unavailable) for url (x)",
            PackageIndexError,
            "does not answer",
        ),
        ("  cause: HTTP status client error (429 Too Many Requests) for url (x)", PackageIndexError, "does not answer"),
        ("E: Failed to fetch http://mirror/libc6.deb  429  Too Many Requests [IP: 1]", PackageIndexError, "answer"),
        ("E: Failed to fetch http://mirror/libc6.deb  502  Bad Gateway [IP: 10.0.0.1]", PackageIndexError, "answer"),
        ("Temporary failure resolving 'mirror.invalid'", PackageIndexError, "does not answer"),
        ("W: Could not connect to 10.0.0.1:80 (10.0.0.1). - connect (111: Connection refused)", PackageIndexError, ""),
        ("cause: failed to write to file `/x`: No space left on device (os error 28)", DiskError, "the disk is full"),
        ("failed to send write: write /x: no space left on device: unknown", DiskError, "the disk is full"),
        ("/scripts/os-packages/install.sh: 44: apt-get: not found", BaseImageError, "expected Debian or Ubuntu"),
        ('exec: "/bin/sh": stat /bin/sh: no such file or directory', BaseImageError, "without apt-get"),
        ("the base image's Python is 3.13, the buildspec says 3.11", BaseImageError, "the image's Python"),
    ],
)
def test_a_known_cause_is_reported_as_its_class(output: str, error: type[DlcError], meaning: str) -> None:
    found = failed(output)
    assert type(found) is error
    assert found.message.startswith("toy training 1/1 failed: ")
    assert meaning in found.message.splitlines()[0]
    assert output.splitlines()[0] in found.message
    assert f"log: {LOG}" in found.message
    assert found.remedy


def test_an_unknown_cause_is_a_build_failure_with_its_last_lines() -> None:
    found = failed("fatal error: foo.h: No such file or directory")
    assert type(found) is BuildError
    assert "foo.h" in found.message


def test_a_full_disk_is_said_before_what_it_caused() -> None:
    assert type(failed("error: Request failed after 3 retries\nno space left on device")) is DiskError


def test_a_base_that_can_not_be_looked_up_is_named_whatever_the_network_said() -> None:
    found = failed("dial tcp: Could not resolve host", "[internal] load metadata for registry.invalid/none:1")
    assert type(found) is BaseImageError
    assert found.message.startswith("base image registry.invalid/none:1: ")


def test_every_cause_has_a_remedy() -> None:
    assert all(cause.remedy and cause.meaning for cause in CAUSES)
