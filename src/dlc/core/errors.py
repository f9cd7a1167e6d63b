"""The errors of dlc, one class and one exit code for each kind; only __main__ turns them into exits.

A message says what happened and where; `remedy` says what to do about it. The codes are our own, in groups:
10 to 19 for the buildspec and its locks, 20 to 29 for the host and the network, 30 to 39 for an image,
50 to 59 for a training script.
`dlc help exit-codes` prints the first line of each class below as its meaning.
"""

from __future__ import annotations

from collections.abc import Iterator

from dlc.core.text import escape_controls


class DlcError(Exception):
    """A check found something, or a file of this host cannot be read or written."""

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        self.message = escape_controls(message)
        self.remedy = escape_controls(remedy)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}\n  remedy: {self.remedy}" if self.remedy else self.message


class UsageError(DlcError):
    """The command line or a variable is wrong, or the folder is no checkout."""

    exit_code = 2


class SpecError(DlcError):
    """A buildspec file, or the file of a job, is wrong."""

    exit_code = 10


class SelectorError(DlcError):
    """A selector matches no image."""

    exit_code = 11


class LockError(DlcError):
    """A lock is missing or stale, or a file that it names is not available."""

    exit_code = 12


class BaseImageError(DlcError):
    """The base image does not exist or is not what the buildspec says."""

    exit_code = 13


class EngineError(DlcError):
    """No Docker engine can be reached, started or used."""

    exit_code = 20


class HostError(DlcError):
    """This host lacks a program or a right that dlc needs."""

    exit_code = 21


class DiskError(DlcError):
    """The disk is full, or too small."""

    exit_code = 22


class PackageIndexError(DlcError):
    """A package index or a Debian mirror does not answer."""

    exit_code = 23


class RegistryError(DlcError):
    """A registry cannot be reached, refuses a request, or does not serve what was pushed."""

    exit_code = 24


class ProcessError(DlcError):
    """A program that dlc ran failed for a reason that no other code names."""

    exit_code = 25


class ProcessTimeoutError(ProcessError):
    """A program that dlc ran did not end in time."""


class PlatformError(DlcError):
    """A platform refuses a job or a question about it, or does not answer."""

    exit_code = 26


class BuildError(DlcError):
    """A build step failed."""

    exit_code = 30


class ImageTestError(DlcError):
    """A built image failed its tests."""

    exit_code = 31


class ImageError(DlcError):
    """An image is missing, over its budget, not reproducible, vulnerable, or no longer supported."""

    exit_code = 32


class ProofError(DlcError):
    """The proof of an image is missing, does not verify, or is not what the policy asks for."""

    exit_code = 33


class OlderImageError(DlcError):
    """A tag in a registry means an image of a newer commit, and was left there."""

    exit_code = 34


class ProfileError(DlcError):
    """What was measured of a training job cannot be read, or is not enough."""

    exit_code = 50


class UnmeasuredError(ProfileError):
    """A training script has no loop over data that can be measured: no DataLoader, no tf.data.Dataset."""

    exit_code = 53


class ScriptError(DlcError):
    """A training script cannot be read: it does not exist, is no UTF-8 text, or has a syntax error."""

    exit_code = 51


class TuneError(DlcError):
    """No batch size of a training script fits, or its trials cannot be measured."""

    exit_code = 52


class InternalError(DlcError):
    """A bug in dlc; DLC_DEBUG=1 shows where."""

    exit_code = 40


class Interrupted(DlcError):  # noqa: N818 (Ctrl-C is no error)
    """Ctrl-C, SIGTERM, a closed terminal or a closed pipe ended the run."""

    exit_code = 130


def list_exit_codes() -> dict[int, str]:
    """Map each exit code to its meaning, in order."""
    meanings = {0: "Done."}
    for error in _all_classes(DlcError):
        meanings.setdefault(error.exit_code, (error.__doc__ or "").partition("\n")[0])
    return dict(sorted(meanings.items()))


def _all_classes(base: type[DlcError]) -> Iterator[type[DlcError]]:
    yield base
    for derived in base.__subclasses__():
        yield from _all_classes(derived)
