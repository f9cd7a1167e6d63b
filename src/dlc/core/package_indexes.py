"""The user's own package indexes and mirrors, as the environment names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dlc.core.environment import INDEX_VARIABLES

MIRROR = "DLC_INDEX_"  # and the index's name: DLC_INDEX_PYTORCH_CPU


@dataclass(frozen=True)
class OwnIndexes:
    """Addresses with their credentials. `default` is empty if the user names none."""

    default: str
    extra: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """Every index that the user names, in the order in which they are searched."""
        return (*self.extra, *((self.default,) if self.default else ()))


def own_indexes(environment: Mapping[str, str]) -> OwnIndexes:
    """What the variables of uv and pip name, the same for a lock and for a build."""
    default, extra = (
        next((environment[name] for name in names if environment.get(name)), "") for names in INDEX_VARIABLES.values()
    )
    return OwnIndexes(_address(default), tuple(_address(word) for word in extra.split()))


def mirror_variable(index: str) -> str:
    """`DLC_INDEX_PYTORCH_CPU` for `pytorch-cpu`."""
    return MIRROR + index.upper().replace("-", "_")


def mirrored(index: str, address: str, environment: Mapping[str, str]) -> str:
    """The address to use for an index of the buildspec: the user's mirror, else its own. Folders become file://."""
    chosen = environment.get(mirror_variable(index), "") or address
    return chosen if "://" in chosen else Path(chosen).absolute().as_uri()


def shown(address: str) -> str:
    """An address without the user name and password that it may have."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def wheel_folder(address: str) -> Path | None:
    """The folder of a file:// address that holds wheels as they are, without an index's pages."""
    folder = Path(urlsplit(address).path)
    return folder if address.startswith("file://") and any(folder.glob("*.whl")) else None


def _address(word: str) -> str:
    """uv lets an index have a name: `NAME=ADDRESS`."""
    name, equals, address = word.partition("=")
    return address if equals and "://" not in name else word
