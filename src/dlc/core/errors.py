"""Every way dlc can fail: one class and one exit code each; only __main__ turns them into exits.

A message says what happened and where; `remedy` says what to do about it. Codes 64..78 have the meaning
sysexits.h gives them, so that a script can tell a wrong input from a broken host.
"""

from __future__ import annotations


class DlcError(Exception):
    """Base of all errors that a user may see without a traceback."""

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n  remedy: {self.remedy}" if self.remedy else self.message


class UsageError(DlcError):
    """The command line is wrong: unknown verb, bad --set."""

    exit_code = 64


class SpecError(DlcError):
    """A buildspec file is wrong; the message is the whole report, one file:line:col line per problem."""

    exit_code = 65


class SelectorError(DlcError):
    """A selector matches no image."""

    exit_code = 66


class LockError(DlcError):
    """A lock is missing, stale, or names a file that cannot be had."""

    exit_code = 67


class BaseImageError(DlcError):
    """The base image does not exist or is not what the buildspec says."""

    exit_code = 68


class EngineError(DlcError):
    """No Docker engine can be reached or started."""

    exit_code = 69


class BuildError(DlcError):
    """A build step failed; the message has its last lines and the log's path."""

    exit_code = 70


class PackageIndexError(DlcError):
    """A package index or a Debian mirror does not answer."""

    exit_code = 73


class DiskError(DlcError):
    """The disk is full, or will be."""

    exit_code = 74


class ProcessError(DlcError):
    """A command that dlc ran failed for a reason no other class names."""

    exit_code = 71


class ImageTestError(DlcError):
    """A built image failed its tests."""

    exit_code = 75


class ImageError(DlcError):
    """An image is not there, or is not what was promised: over its budget, not reproducible, vulnerable."""

    exit_code = 76


class RegistryError(DlcError):
    """A registry cannot be reached, refuses what is asked of it, or serves something else than what was pushed."""

    exit_code = 77


class Interrupted(DlcError):  # noqa: N818 (the user's Ctrl-C is no error of the tool)
    """SIGINT or SIGTERM ended the run; nothing half-done is left."""

    exit_code = 130
