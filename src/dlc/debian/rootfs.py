"""Makes the root file system under our own base image: a minimal Debian from its packages, as one tar file.

No registry is needed. The tar is kept in the cache, in a folder that is named after what it is made from. It is moved
there when it is complete.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from dlc.core.atomic_files import draft_folder, hold_lock, require_room, scratch_folder
from dlc.core.digests import FOLDER_MODE, is_sealed, say_damaged, seal
from dlc.core.errors import BaseImageError, DiskError
from dlc.core.platforms import require_runs_here, split_suffix
from dlc.core.process import last_lines, run_program, stream_program
from dlc.debian import apt
from dlc.debian.suites import EPOCH, base_recipe, make_preferences, mmdebstrap_command, pin_arguments

BUILD_SECONDS = 900.0
SCRATCH = "dlc-base-"
# The system unpacked with its packages, and its tar.
ROOM_BYTES = 600 * 10**6
# mmdebstrap mounts /proc, /sys and /dev of this host into what it makes: here in a mount namespace that ends with its
# last process, and all of these end with dlc, however it ends.
ALONE = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child")
# The keys of Debian's archive, where mmdebstrap looks for them; their package has the same name.
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# What mmdebstrap says at the start of a step that takes long.
STEP = re.compile(r"I: ((?:download|extract|install|creat)ing .*?)(?: in the chroot| inside the chroot)?\.\.\.")


def rootfs_folder(suite: str, recorded: Mapping[str, str], cache: Path) -> Path:
    """Return the folder of the tar of this suite, now or later: it is named after what the tar is made from."""
    digest = hashlib.sha256(base_recipe(suite, recorded).encode()).hexdigest()[:12]
    return cache / "rootfs" / f"{suite}-{digest}"


def make_rootfs(suite: str, recorded: Mapping[str, str], cache: Path) -> Path:
    """Return the folder with `rootfs.tar` of a Debian suite; the tar is made if it is missing, or not as it was made.

    `recorded`: package -> version that is preferred. Raises BaseImageError if the Debian packages are not
    available, DiskError if the disk is full.
    """
    target = rootfs_folder(suite, recorded, cache)
    if is_sealed(target / "rootfs.tar"):
        return target
    require_foreign_program(suite, cache)
    target.mkdir(parents=True, exist_ok=True)
    for folder, variable in ((cache, "DLC_CACHE_DIR"), (Path(tempfile.gettempdir()), "TMPDIR")):
        require_room(folder, ROOM_BYTES, "to make the base file system", variable)
    require_program(cache)
    with hold_lock(target, BUILD_SECONDS), draft_folder(cache) as draft:
        # Another build may have made it meanwhile.
        if not is_sealed(target / "rootfs.tar"):
            say_damaged(target / "rootfs.tar")
            _say_step(suite, "made from Debian packages")
            _build_tar(suite, recorded, draft)
            (draft / "rootfs.tar").replace(target / "rootfs.tar")
            seal(target / "rootfs.tar")
    return target


def require_program(cache: Path) -> None:
    """Install mmdebstrap and Debian's keys if this host lacks them. Raises HostError, PackageIndexError."""
    _install_missing("mmdebstrap", cache)
    # Ubuntu has mmdebstrap only recommend them.
    if not KEYS.exists() and not apt.can_install():
        apt.install_packages([KEYS.stem], cache / "apt")


def name_keys() -> list[str]:
    """Return the option by which mmdebstrap trusts Debian's keys where apt does not: outside Debian.

    Without it mmdebstrap names the keys' file in the sources.list that it writes: the image would be another.
    """
    return [f"--keyring={KEYS}"] if KEYS.exists() and apt.read_os_release().get("ID") != "debian" else []


def require_foreign_program(system: str, cache: Path) -> None:
    """Install what mmdebstrap needs for another platform; nothing for the first one. Raises HostError."""
    _, platform = split_suffix(system)
    if platform.suffix:
        require_runs_here(platform.name)
        _install_missing("arch-test", cache)


def _install_missing(program: str, cache: Path) -> None:
    if shutil.which(program) is None:
        apt.install_packages([program], cache / "apt")


def keep_rootfs(made: Path, suite: str, cache: Path) -> Path:
    """Return a folder with a `rootfs.tar` of the suite that stays when a newer one is made.

    It is for tools that no image holds.

    `made` is a folder of `make`, whose tar is taken if there is none yet.
    """
    digest = hashlib.sha256(shlex.join(mmdebstrap_command(suite)).encode()).hexdigest()[:12]
    target = cache / "rootfs" / f"tools-{suite}-{digest}"
    if not is_sealed(target / "rootfs.tar"):
        target.mkdir(parents=True, exist_ok=True)
        with hold_lock(target, BUILD_SECONDS), draft_folder(cache) as draft:
            if not is_sealed(target / "rootfs.tar"):
                say_damaged(target / "rootfs.tar")
                os.link(made / "rootfs.tar", draft / "rootfs.tar")
                (draft / "rootfs.tar").replace(target / "rootfs.tar")
                seal(target / "rootfs.tar")
    return target


def _can_be_alone() -> bool:
    """Tell whether this host lets mmdebstrap run in namespaces of its own.

    Else a killed one leaves its folder with mounts, in which nobody may remove anything before they are unmounted.
    """
    if os.geteuid() or not all(map(shutil.which, ("setpriv", "unshare"))):
        return False
    return not run_program([*ALONE, "true"], check=False).returncode


def _build_tar(suite: str, recorded: Mapping[str, str], draft: Path) -> None:
    held = draft / "recorded"
    held.write_text(make_preferences(recorded))
    program, *rest = mmdebstrap_command(suite)
    argv = [program, *pin_arguments(held), *name_keys(), *rest, str(draft / "rootfs.tar")]
    if not _can_be_alone():
        _run_mmdebstrap(suite, argv, {})
        return
    with scratch_folder(SCRATCH) as unpacked:
        # apt downloads as a user of its own.
        unpacked.chmod(FOLDER_MODE)
        _run_mmdebstrap(suite, [*ALONE, *argv], {"TMPDIR": str(unpacked)})


def _run_mmdebstrap(suite: str, argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run mmdebstrap. Raises BaseImageError with its words, DiskError if the disk is full."""
    lines: list[str] = []

    def line(text: str) -> None:
        lines.append(text)
        if step := STEP.fullmatch(text):
            _say_step(suite, step[1])

    if stream_program(argv, line, env={**environment, "SOURCE_DATE_EPOCH": str(EPOCH)}, timeout=BUILD_SECONDS):
        said = "\n".join(lines)
        words = "; ".join([line for line in lines if line.startswith("E:")] or last_lines(said, 5).splitlines())
        if "No space left on device" in said:
            raise DiskError(f"mmdebstrap {suite}: {words}", "free space in the cache folder and in TMPDIR")
        remedy = f"install {KEYS.stem}" if "is not signed" in words else "check that apt reaches its mirrors"
        raise BaseImageError(f"mmdebstrap {suite}: {words}", remedy)


def _say_step(suite: str, what: str) -> None:
    print(f"{suite} base file system: {what}", file=sys.stderr, flush=True)
