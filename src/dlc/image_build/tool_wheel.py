"""The wheel of dlc itself: the one that this dlc was installed from, and the one that a project pins."""

from __future__ import annotations

import hashlib
import json
import os
import re
import zipfile
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from io import BytesIO
from pathlib import Path
from urllib.parse import unquote, urlsplit

import dlc
from dlc.buildspec.tool_pin import NEEDS, ToolPin
from dlc.checked_yaml.patterns import DIGEST, MEANINGS, WHEEL
from dlc.core.atomic_files import report_disk_errors
from dlc.core.checkout import IN_WHEEL, OWN, PROJECT, SIGN
from dlc.core.environment import cache_folder, find_ca_bundle, hide_password, user_path
from dlc.core.errors import LockError, UsageError
from dlc.image_build import download
from dlc.plan.contexts import Pinned

# Where a project keeps a wheel that has no address.
FOLDER = "tools"
HASH_WORD = "#sha256="
SHOWN_DIGITS = 12


@dataclass(frozen=True)
class ToolWheel:
    """A wheel of dlc, and the pin that names it. `data` is empty for a wheel at an address: a project has no copy."""

    pin: ToolPin
    # The text of NEEDS in it.
    needs: str
    data: bytes = b""


class NoWheelError(Exception):
    """The wheel that this dlc was installed from cannot be told; the message says why."""


def find_own_wheel() -> ToolWheel:
    """Return the wheel that this dlc was installed from, as its installer recorded it (PEP 610).

    Raises NoWheelError if nothing records it, or if the file is gone or another one by now.
    """
    own, said = _read_origin()
    address = str(said.get("url", ""))
    digest = _read_hash(said)
    if address.startswith("file://"):
        return _read_own_file(Path(unquote(urlsplit(address).path)), digest, own)
    if not re.fullmatch(WHEEL, address):
        raise NoWheelError(f"this dlc was installed from {_show(address)}, which no project may name")
    if not digest:
        raise NoWheelError(f"this dlc was installed from {address}, and its installer recorded no hash")
    needs = own.locate_file(IN_WHEEL + NEEDS)
    return ToolWheel(ToolPin(address, digest), Path(str(needs)).read_text())


def _show(address: str) -> str:
    """Return an address for messages: without a password, and without a query, which may be a token."""
    return hide_password(address).partition("?")[0]


def find_own_hash() -> str:
    """Return the hash of the wheel that this dlc was installed from; empty if nothing records it."""
    try:
        return _read_hash(_read_origin()[1])
    except NoWheelError:
        return ""


def _read_origin() -> tuple[Distribution, dict[str, object]]:
    """Return the installed dlc, and what its installer recorded of the wheel."""
    try:
        own = distribution("dlc")
    except PackageNotFoundError:
        raise NoWheelError("this dlc is not installed") from None
    text = own.read_text("direct_url.json")
    if text is None:
        raise NoWheelError("this dlc was installed without the address of a wheel")
    said = json.loads(text)
    there, running = Path(str(own.locate_file("dlc/__init__.py"))), Path(str(dlc.__file__))
    if "archive_info" not in said or there.resolve() != running.resolve():
        raise NoWheelError("this dlc is a checkout")
    return own, said


def _read_hash(said: dict[str, object]) -> str:
    """Return the sha256 of an origin. uv records none."""
    archive = said.get("archive_info")
    hashes = archive.get("hashes") if isinstance(archive, dict) else None
    found = str(hashes.get("sha256", "")) if isinstance(hashes, dict) else ""
    return found if re.fullmatch(DIGEST, found) else ""


def _read_own_file(path: Path, digest: str, own: Distribution) -> ToolWheel:
    """Return the wheel if the file is the one that was installed: by its hash, or by the hashes of what is in it."""
    try:
        found = read_wheel_file(path)
    except (OSError, UsageError):
        raise NoWheelError(f"this dlc was installed from {path}, which is no wheel any more") from None
    record = f"dlc-{found.pin.version}.dist-info/RECORD"
    with zipfile.ZipFile(BytesIO(found.data)) as archive:
        listed = set(archive.read(record).decode().splitlines()) - {f"{record},,"}
    installed = set((own.read_text("RECORD") or "").splitlines())
    if found.pin.sha256 != digest if digest else not listed <= installed:
        raise NoWheelError(f"this dlc was installed from {path}, which is another file now")
    return found


def take_wheel(word: str) -> ToolWheel:
    """Return the wheel that a user names: FILE, or an https address with #sha256=HASH.

    Raises UsageError for what is neither, or no wheel of dlc; LockError as `download.fetch` does.
    """
    if "://" not in word:
        try:
            return read_wheel_file(user_path(word))
        except OSError as error:
            raise UsageError(f"--tool {word}: expected a file, found: {error.strerror}", "name another file") from None
    address, _, digest = word.partition(HASH_WORD)
    if not re.fullmatch(WHEEL, address):
        raise UsageError(f"--tool: expected {MEANINGS[WHEEL]}, found {_show(address)}", "name another address")
    if not re.fullmatch(DIGEST, digest):
        raise UsageError(
            f"--tool {address}: expected its hash behind the address, found {digest[:80] or 'none'}",
            f"{address}{HASH_WORD}HASH; SHA256SUMS of the release has it",
        )
    pin = ToolPin(address, digest)
    return ToolWheel(pin, read_pinned(pin, Path()).needs)


def read_wheel_file(path: Path) -> ToolWheel:
    """Read a wheel of dlc. Raises OSError for a file that cannot be read, UsageError for another file."""
    if not re.fullmatch(WHEEL, path.name):
        raise UsageError(f"{path}: expected a name such as dlc-1.0.0-py3-none-any.whl", "name a wheel of dlc")
    data = path.read_bytes()
    return _open_wheel(ToolPin(f"{FOLDER}/{path.name}", hashlib.sha256(data).hexdigest()), data)


def read_pinned(pin: ToolPin, project: Path) -> ToolWheel:
    """Return the wheel that a project pins; one at an address is kept in the cache.

    Raises LockError for a wheel that is not there or has another hash, UsageError for what is no wheel of dlc.
    """
    if pin.is_address:
        cache = cache_folder()
        with report_disk_errors(cache):
            found = download.fetch(Pinned(pin.sha256, pin.wheel), cache, find_ca_bundle(os.environ))
            return _open_wheel(pin, (found / download.FILE).read_bytes())
    path = project / pin.wheel
    try:
        data = path.read_bytes()
    except OSError as error:
        raise LockError(f"{path}: expected the wheel that {PROJECT} names, found: {error.strerror}",
                        "put it there, or name another in `tool`") from None  # fmt: skip
    if (digest := hashlib.sha256(data).hexdigest()) != pin.sha256:
        raise LockError(f"{path}: expected sha256 {pin.sha256} as {PROJECT} says, found {digest}",
                        "if this wheel is the right one, write its sha256 into `tool`")  # fmt: skip
    return _open_wheel(pin, data)


def _open_wheel(pin: ToolPin, data: bytes) -> ToolWheel:
    """Return the wheel with what it needs. Raises UsageError if it is no wheel of dlc, or one of another version."""
    name = pin.wheel.rpartition("/")[2]
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            archive.getinfo(f"dlc-{pin.version}.dist-info/RECORD")
            needs = archive.read(IN_WHEEL + NEEDS).decode()
    except (zipfile.BadZipFile, KeyError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{name}: expected a wheel of dlc {pin.version} with {IN_WHEEL}{NEEDS}, found another file: {error}",
            "name the wheel of a release: those of dlc 1.0 and older have no lock of what they need",
        ) from None
    return ToolWheel(pin, needs, data)


def explain_other_tool(pin: ToolPin) -> str:
    """Tell that this dlc is another one than a project pins; empty if it is the same, or if nobody can tell."""
    if pin.version != dlc.__version__:
        return f"{PROJECT} pins dlc {pin.version}, and this is dlc {dlc.__version__}"
    if (OWN / SIGN).is_file():
        return f"{PROJECT} pins a wheel of dlc {pin.version}, and this is a checkout"
    own = find_own_hash()
    if own and own != pin.sha256:
        return (
            f"{PROJECT} pins dlc {pin.version} with sha256 {pin.sha256[:SHOWN_DIGITS]}..., and this one has "
            f"{own[:SHOWN_DIGITS]}..."
        )
    return ""
