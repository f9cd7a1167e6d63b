"""The destination that `--to` names: a registry, or the AWS account's own, in which missing repositories are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlc.registry.client import credentials
from dlc.registry.client.credentials import Address, Credentials, parse_address
from dlc.registry.client.http import Session
from dlc.registry.client.repository import Repository

ECR = "ecr"
ECR_PATH = "dlc"


@dataclass(frozen=True)
class Destination:
    """A registry, the path of its repositories, and the user. `prepare` creates a repository if it is missing.

    `frameworks`: whose repositories may have layers in common.
    """

    address: Address
    credentials: Credentials | None
    ca: Path | None
    prepare: Callable[[str], None]
    frameworks: tuple[str, ...] = ()

    @property
    def registry(self) -> str:
        """Return the registry's name, as references have it."""
        return self.address.registry

    def name(self, framework: str) -> str:
        """Return the repository of a framework's images: `team/pytorch`."""
        return f"{self.address.path}/{framework}"

    def reference(self, framework: str) -> str:
        """Return the same with the registry: `registry.example/team/pytorch`."""
        return f"{self.registry}/{self.name(framework)}"

    def repository(self, framework: str, say: Callable[[str], None], others: Sequence[str] = ()) -> Repository:
        """Return a client for that repository, which is created if ECR lacks it.

        `others` are further repositories of this registry that may have the same layers.
        """
        name = self.name(framework)
        self.prepare(name)
        named = [*others, *map(self.name, self.frameworks)]
        beside = [(other, self._session(name, other)) for other in named if other != name]
        return Repository(self._session(name), name, say, beside=beside)

    def reader(self, framework: str, say: Callable[[str], None]) -> Repository:
        """Return a client that only reads that repository, and creates none."""
        name = self.name(framework)
        return Repository(Session(self.address.url, name, self.credentials, self.ca, actions="pull"), name, say)

    def _session(self, name: str, also_read: str = "") -> Session:
        return Session(self.address.url, name, self.credentials, self.ca, also_read=also_read)


def open_destination(to: str, ca: Path | None, frameworks: tuple[str, ...] = (), option: str = "--to") -> Destination:
    """Return what `--to`, or another option, names.

    Raises UsageError for a wrong address, RegistryError if credentials cannot be read.
    """
    if to == ECR:
        # boto3 takes a second to import, and need not be installed.
        from dlc.registry.client import ecr

        registry, known = ecr.log_in_to_ecr()
        return Destination(Address(registry, ECR_PATH), known, ca, ecr.ensure_repository, frameworks)
    address = parse_address(to, option)
    return Destination(address, credentials.read_credentials(address.registry), ca, lambda _: None, frameworks)
