"""Errors of the data service: each says the fault, its place, what was expected and what to do. Imports nothing."""

from __future__ import annotations


class DataServiceError(RuntimeError):
    """The data service cannot do what was asked."""


class SettingError(DataServiceError, ValueError):
    """An argument or a variable is wrong."""


class MissingPackageError(DataServiceError, ImportError):
    """A package that the data service needs is not in this image."""


class UnsupportedBatchError(DataServiceError, TypeError):
    """A batch holds something that does not travel: the message has its place in the batch."""


class BatchTooLargeError(DataServiceError):
    """A batch is larger than the bound that both sides keep."""


class RemoteUserError(DataServiceError):
    """The user's function raised on a data host. `type_name`, `host` and `remote_traceback` are from there."""

    def __init__(self, message: str, type_name: str = "", host: str = "", remote_traceback: str = "") -> None:
        super().__init__(message)
        self.type_name, self.host, self.remote_traceback = type_name, host, remote_traceback


class HangingUserFunctionError(DataServiceError):
    """The user's function works on one batch for longer than the deadline."""


class ServersLostError(DataServiceError):
    """No data server answers, for longer than the patience."""


class ServersDifferError(DataServiceError):
    """Two data servers describe different data."""


class ConsumerLostError(DataServiceError):
    """A training rank that held batches is gone."""


class ProtocolError(DataServiceError):
    """The other side sent what it must not send."""


class RefusedError(ProtocolError):
    """The other side does not hold this job's token."""
