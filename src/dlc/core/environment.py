"""What dlc reads from its environment: folders, proxies, secrets, certificates, package indexes, the platform."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from dlc.core.errors import UsageError

PROXY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "FTP_PROXY", "ALL_PROXY")
CA_VARIABLES = ("DLC_CA_BUNDLE", "PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
# The path on Debian and Ubuntu.
SYSTEM_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
# Secret id -> the variables that may hold it, most specific first.
INDEX_VARIABLES = {
    "index_url": ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"),
    "extra_index_url": ("UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"),
}
# What dlc itself reads, besides DLC_INDEX_NAME: what a job reads is the launcher's to judge.
OWN_VARIABLES = ("DLC_CACHE_DIR", "DLC_CA_BUNDLE", "DLC_DEBIAN_TRACKER_DUMP", "DLC_DEBUG", "DLC_ENGINE",
                 "DLC_ENGINE_DIR", "DLC_OSV_DUMP")  # fmt: skip
# All images are built for this platform.
PLATFORM = "linux/amd64"
# The names that Docker gives to what the kernel calls machine.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}
HOME_REMEDY = "set HOME, or DLC_CACHE_DIR to a folder that dlc may write"
# For an index that answers 401, 403 or 407.
LOGIN_REMEDY = "give its login in ~/.netrc or in its address, and name it in NO_PROXY if a proxy refuses it"
# The index's name follows, as in DLC_INDEX_PYTORCH_CPU.
MIRROR = "DLC_INDEX_"


def cache_folder() -> Path:
    """Return `DLC_CACHE_DIR`, else `$XDG_CACHE_HOME/dlc`, else `~/.cache/dlc`: what dlc can make again.

    Raises UsageError if a file is in the place of a folder above it.
    """
    if chosen := os.environ.get("DLC_CACHE_DIR"):
        variable, folder = "DLC_CACHE_DIR", user_path(chosen)
    elif chosen := os.environ.get("XDG_CACHE_HOME"):
        variable, folder = "XDG_CACHE_HOME", user_path(chosen) / "dlc"
    else:
        variable, folder = "HOME", home_folder() / ".cache/dlc"
    folder = folder.absolute()
    there = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
    if not there.is_dir():
        raise UsageError(
            f"{variable}: expected a folder that may hold {folder}, found {there}, which is none", HOME_REMEDY
        )
    return folder


def engine_folder() -> Path:
    """Return `DLC_ENGINE_DIR`, else `engine` in the cache folder: socket, data, pid and log of the private engine."""
    chosen = os.environ.get("DLC_ENGINE_DIR")
    return user_path(chosen).absolute() if chosen else cache_folder() / "engine"


def starts_no_engine(environment: Mapping[str, str]) -> bool:
    """Tell whether DLC_ENGINE forbids to start an engine. Raises UsageError if it says anything but `off`."""
    said = environment.get("DLC_ENGINE", "")
    if said not in ("", "off"):
        raise UsageError(f"DLC_ENGINE={said}: expected off, found another word", "correct it, or unset it")
    return bool(said)


def local_wheel_folders() -> list[Path]:
    """Return the folders that are there, absolute, from UV_FIND_LINKS (commas) and PIP_FIND_LINKS (spaces)."""
    folders = (_path_of_link(word).absolute() for _, word in _read_find_links() if _path_of_link(word).is_dir())
    return list(dict.fromkeys(folders))


def list_lost_links() -> list[str]:
    """Return a warning for each place that those variables name and that is no folder here: dlc does not look there."""
    lost = dict.fromkeys(pair for pair in _read_find_links() if not _path_of_link(pair[1]).is_dir())
    return [
        f"{variable}: expected folders, found {hide_password(word)}, which is passed over" for variable, word in lost
    ]


def _read_find_links() -> list[tuple[str, str]]:
    """Return variable and word of each place."""
    words = {
        "UV_FIND_LINKS": os.environ.get("UV_FIND_LINKS", "").split(","),
        "PIP_FIND_LINKS": os.environ.get("PIP_FIND_LINKS", "").split(),
    }
    return [(variable, word.strip()) for variable, found in words.items() for word in found if word.strip()]


def _path_of_link(word: str) -> Path:
    """Return the path of a path or a file:// address; of another address a path that is not there."""
    return Path(unquote(urlsplit(word).path)) if word.startswith("file://") else user_path(word)


def user_path(word: str) -> Path:
    """Return a path with `~` as a home folder; of a user who is not there it stays as it is written."""
    with suppress(RuntimeError):
        return Path(word).expanduser()
    return Path(word)


def hide_password(address: str) -> str:
    """Return an address as messages show it: without the user name and password that it may have, right or wrong."""
    scheme = re.match(r"[A-Za-z+]+://|", address)
    start = scheme.end() if scheme else 0
    return address[:start] + re.sub(r"^(?:[^/@]*:.*|[^/]*)@", "", address[start:])


def hide_passwords(text: str) -> str:
    """Cut any text before an address with a password in it. A digest behind an @ is no password."""
    return hide_password(text) if re.search(r":.*@(?!sha256:)", text) else text


def read_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Return BuildKit's predefined proxy arguments: they reach RUN steps and neither a layer nor the history."""
    names = (*PROXY_NAMES, *(name.lower() for name in PROXY_NAMES))
    return {name: environment[name] for name in names if environment.get(name)}


def find_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Map each build secret to where BuildKit reads it, as bake writes it. Never to a value."""
    found: dict[str, str] = {}
    for identifier, names in INDEX_VARIABLES.items():
        for name in names:
            if environment.get(name):
                found[identifier] = f"env={name}"
                break
    netrc = Path(environment.get("NETRC") or home_folder() / ".netrc")
    if netrc.is_file():
        found["netrc"] = f"src={netrc.absolute()}"
    return found


def find_ca_bundle(environment: Mapping[str, str]) -> Path | None:
    """Return the file of certificate authorities that this host trusts: a variable's, else the system's own, else None.

    Raises UsageError if DLC_CA_BUNDLE names no file of certificates; the other variables are not ours to judge.
    """
    chosen = environment.get("DLC_CA_BUNDLE")
    if chosen and not (user_path(chosen).is_file() and b"CERTIFICATE-----" in user_path(chosen).read_bytes()):
        raise UsageError(
            f"DLC_CA_BUNDLE={chosen}: expected a file of certificates in PEM, found none",
            "unset DLC_CA_BUNDLE, or export DLC_CA_BUNDLE=FILE",
        )
    named = [user_path(environment[name]).absolute() for name in CA_VARIABLES if environment.get(name)]
    return next((path for path in [*named, SYSTEM_BUNDLE] if path.is_file()), None)


def docker_platform(machine: str) -> str:
    """Return a Linux machine's name as Docker writes its platform: x86_64 is linux/amd64."""
    return f"linux/{ARCHITECTURES.get(machine, machine)}"


def host_platform() -> str:
    """Return the platform of this host."""
    return docker_platform(os.uname().machine)


def home_folder() -> Path:
    """Return the user's home folder. Raises UsageError if neither HOME nor the user database has one."""
    if home := os.environ.get("HOME"):
        return Path(home)
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        raise UsageError(
            f"HOME: expected the user's home folder, found nothing, and user {os.getuid()} has none either",
            HOME_REMEDY,
        ) from None


@dataclass(frozen=True)
class OwnIndexes:
    """Addresses with their credentials. `default` is empty if the user names none."""

    default: str
    extra: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """Return every index that the user names, in the order in which they are searched."""
        return (*self.extra, *((self.default,) if self.default else ()))


def read_own_indexes(environment: Mapping[str, str]) -> OwnIndexes:
    """Read the variables of uv and pip, in the same way for a lock and for a build.

    Raises UsageError for a wrong address.
    """
    default, extra = (
        next((environment[name] for name in names if environment.get(name)), "") for names in INDEX_VARIABLES.values()
    )
    found = OwnIndexes(_strip_name(default), tuple(_strip_name(word) for word in extra.split()))
    for address in found.all:
        if not (_is_place(address) if "://" in address else Path(address).is_dir()):
            raise UsageError(
                f"{hide_password(address)}: expected the address of a package index (http, https, file), "
                "found no address",
                f"correct it in {', '.join(name for names in INDEX_VARIABLES.values() for name in names)}",
            )
    return found


def mirror_variable(index: str) -> str:
    """Return DLC_INDEX_PYTORCH_CPU for `pytorch-cpu`."""
    return MIRROR + index.upper().replace("-", "_")


def resolve_index(index: str, address: str, environment: Mapping[str, str]) -> str:
    """Return the address at which to ask an index of the buildspec: the user's mirror, else its own.

    Folders become file://.

    Raises UsageError for a mirror that is neither an address nor a folder.
    """
    chosen = environment.get(mirror_variable(index), "")
    if not chosen:
        return address
    place = chosen if "://" in chosen else user_path(chosen).absolute().as_uri()
    if not _is_place(place):
        raise UsageError(
            f"{mirror_variable(index)}={hide_password(chosen)}: expected an address (http, https, file) or a folder "
            "that is there, found neither",
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
    """Tell whether an address is of HTTP. Raises ValueError for a wrong port."""
    return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0


def wheel_folder(address: str) -> Path | None:
    """Return the folder of a file:// address that holds wheels as they are, without an index's pages."""
    if not address.startswith("file://"):
        return None
    folder = Path(unquote(urlsplit(address).path))
    return folder if any(folder.glob("*.whl")) else None


def _strip_name(word: str) -> str:
    """Return the address of an index, without the name that uv lets it have: `NAME=ADDRESS`."""
    name, equals, address = word.partition("=")
    return address if equals and "://" not in name else word
