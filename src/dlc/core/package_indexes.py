"""The user's own package indexes and mirrors, as the environment names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from dlc.core.environment import INDEX_VARIABLES, shown, user_path
from dlc.core.errors import UsageError

# Where an index answers 401, 403 or 407.
LOGIN_REMEDY = "give its login in ~/.netrc or in its address, and name it in NO_PROXY if a proxy refuses it"
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
    """What the variables of uv and pip name, the same for a lock and for a build. Raises UsageError for no address."""
    default, extra = (
        next((environment[name] for name in names if environment.get(name)), "") for names in INDEX_VARIABLES.values()
    )
    found = OwnIndexes(_address(default), tuple(_address(word) for word in extra.split()))
    for address in found.all:
        if not (_is_place(address) if "://" in address else Path(address).is_dir()):
            raise UsageError(
                f"{shown(address)}: expected the address of a package index (http, https, file), found another word",
                f"correct it in {', '.join(name for names in INDEX_VARIABLES.values() for name in names)}",
            )
    return found


def mirror_variable(index: str) -> str:
    """`DLC_INDEX_PYTORCH_CPU` for `pytorch-cpu`."""
    return MIRROR + index.upper().replace("-", "_")


def mirrored(index: str, address: str, environment: Mapping[str, str]) -> str:
    """Where an index of the buildspec is asked: the user's mirror of it, else its own address. Folders become file://.

    Raises UsageError for a mirror that is neither an address nor a folder.
    """
    chosen = environment.get(mirror_variable(index), "")
    if not chosen:
        return address
    place = chosen if "://" in chosen else user_path(chosen).absolute().as_uri()
    if not _is_place(place):
        raise UsageError(
            f"{mirror_variable(index)}={shown(chosen)}: expected an address (http, https, file) or a folder that is "
            "there, found neither",
            f"correct it, or unset it: then {index} is asked at its own address",
        )
    return place


def _is_place(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return Path(unquote(parts.path)).is_dir() if parts.scheme == "file" else _is_http(parts)
    except ValueError:
        return False


def _is_http(parts: SplitResult) -> bool:
    """Raises ValueError for a port that is none."""
    return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0


def wheel_folder(address: str) -> Path | None:
    """The folder of a file:// address that holds wheels as they are, without an index's pages."""
    if not address.startswith("file://"):
        return None
    folder = Path(unquote(urlsplit(address).path))
    return folder if any(folder.glob("*.whl")) else None


def _address(word: str) -> str:
    """uv lets an index have a name: `NAME=ADDRESS`."""
    name, equals, address = word.partition("=")
    return address if equals and "://" not in name else word
