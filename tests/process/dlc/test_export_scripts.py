"""The scripts of docker/export, each run in a file system like that of a build step, with real pip and servers."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from scripted_server import Reply, serving

from dlc.core.checkout import find_root
from dlc.debian import suites
from harness.package_index import PackageIndex

ROOT = find_root(Path(__file__).parent)
SECONDS = 600.0
# This host's files below a layer of the step's own, in a mount namespace that ends with it.
STEP = """
set -eu
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount --bind /dev "$1/root/dev"
root=$1/root
shift
while [ "$1" != -- ]; do
    mkdir -p "$root$2"
    mount --bind "$1" "$root$2"
    shift 2
done
shift
exec chroot "$root" sh -c "$1"
"""
# Notes its words, and makes a tar of one file.
MMDEBSTRAP = """#!/bin/sh
printf '%s\\n' "$@" >/tmp/words
cp /tmp/recorded /tmp/kept
for last in "$@"; do case $last in *.tar) tar -cf "$last" -C /etc hostname ;; esac; done
"""
SNAPSHOT = "http://snapshot.example/archive/debian/20260901T000000Z"
SECURITY = "http://snapshot.example/archive/debian-security/20260901T000000Z"


def find_obstacle() -> str:
    """Return why no step can run here, as this system says it; empty if steps can run."""
    if os.geteuid():
        return "a step needs root"
    for needs in ("unshare --mount true", "/usr/bin/python3 -m pip --version"):
        done = subprocess.run(["sh", "-c", needs], capture_output=True, text=True, check=False)
        if done.returncode:
            return f"a step needs `{needs}`: {done.stderr.strip()}"
    return ""


OBSTACLE = find_obstacle()
pytestmark = pytest.mark.skipif(bool(OBSTACLE), reason=OBSTACLE)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """What is mounted at /scripts: how pip finds its index."""
    folder = tmp_path / "scripts"
    shutil.copytree(ROOT / "docker/scripts/python-packages", folder / "python-packages")
    return folder


def run_step(
    folder: Path, command: str, mounts: Mapping[str, Path], **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in the file system of a step, with these folders of this host in it."""
    (folder / "layer").mkdir(exist_ok=True)
    places = [word for target, source in {"/prepare": ROOT / "docker/export/prepare", **mounts}.items()
              for word in (str(source), target)]  # fmt: skip
    argv = ["unshare", "--mount", "sh", "-c", STEP, "sh", str(folder / "layer"), *places, "--", command]
    environment = {"PATH": os.environ["PATH"], "HOME": "/root", "no_proxy": "127.0.0.1", **variables}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[PackageIndex]:
    (tmp_path / "index").mkdir()
    server = PackageIndex(tmp_path / "index", "127.0.0.1")
    server.start()
    yield server
    server.stop()


def write_lock(folder: Path, wheel: Path) -> Path:
    """A folder of locks as an export has them, with one package of the index `special`."""
    lock = folder / "locks" / "special" / "dlc-local.txt"
    lock.parent.mkdir(parents=True)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    lock.write_text(f"dlc-local==1.0+cpu \\\n    --hash=sha256:{digest}\n")
    return folder / "locks"


def fetch_wheels(
    tmp_path: Path, locks: Path, bundle: Path, address: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    own = tmp_path / "own"
    own.mkdir(exist_ok=True)
    command = f"sh /prepare/fetch-wheels.sh /locks /own /wheels 'special={address}' && ls /wheels"
    return run_step(tmp_path, command, {"/scripts": bundle, "/locks": locks, "/own": own}, **variables)


def test_a_wheel_comes_from_its_index_by_its_hash(tmp_path: Path, bundle: Path, index: PackageIndex) -> None:
    wheel = index.add("dlc-local", "1.0+cpu")
    done = fetch_wheels(tmp_path, write_lock(tmp_path, wheel), bundle, index.address)
    assert (done.stdout, done.returncode) == (f"{wheel.name}\n", 0), done.stderr


def test_a_wheel_of_the_users_own_folder_asks_no_index(tmp_path: Path, bundle: Path, index: PackageIndex) -> None:
    wheel = index.add("dlc-local", "1.0+cpu")
    (tmp_path / "own").mkdir()
    shutil.copy(wheel, tmp_path / "own")
    done = fetch_wheels(tmp_path, write_lock(tmp_path, wheel), bundle, index.address)
    assert (done.stdout, done.returncode) == (f"{wheel.name}\n", 0), done.stderr
    assert index.asked == []


def test_the_users_own_index_comes_first_and_may_have_a_name(tmp_path: Path, bundle: Path, index: PackageIndex) -> None:
    wheel = index.add("dlc-local", "1.0+cpu")
    own = {"PIP_EXTRA_INDEX_URL": f"company={index.address}"}
    done = fetch_wheels(tmp_path, write_lock(tmp_path, wheel), bundle, "http://127.0.0.1:9/simple", **own)
    assert (done.stdout, done.returncode) == (f"{wheel.name}\n", 0), done.stderr


def test_another_file_than_the_locks_is_not_taken_and_the_way_out_is_said(
    tmp_path: Path, bundle: Path, index: PackageIndex
) -> None:
    locks = write_lock(tmp_path, index.add("dlc-local", "1.0+cpu"))
    index.add("dlc-local", "1.0+cpu", "another")
    done = fetch_wheels(tmp_path, locks, bundle, index.address)
    assert done.returncode == 1
    assert (
        "dlc-local: no wheel with the lock's hash in own/wheels, on your indexes or on the index special" in done.stderr
    )
    assert "--build-arg INDEXES=special=ADDRESS" in done.stderr


def test_uv_is_unpacked_from_the_wheel_of_the_lock(tmp_path: Path, bundle: Path, index: PackageIndex) -> None:
    wheel = index.add("dlc-uv", "1.0")
    uv = wheel.with_name("uv-1.0-py3-none-any.whl")
    program = "uv-1.0.data/scripts/uv"
    code = (
        "import sys, zipfile; old = zipfile.ZipFile(sys.argv[1]); new = zipfile.ZipFile(sys.argv[2], 'w')\n"
        "new.writestr('uv-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: uv\\nVersion: 1.0\\n')\n"
        "new.writestr('uv-1.0.dist-info/WHEEL', old.read('dlc_uv-1.0.dist-info/WHEEL'))\n"
        f"new.writestr('{program}', '#!/bin/sh\\necho works\\n')\nnew.close()\n"
    )
    subprocess.run(["/usr/bin/python3", "-c", code, wheel, uv], check=True)
    index._list("uv", uv)
    lock = tmp_path / "locks" / "uv.txt"
    lock.parent.mkdir()
    lock.write_text(f"uv==1.0 --hash=sha256:{hashlib.sha256(uv.read_bytes()).hexdigest()}\n")
    done = run_step(
        tmp_path, "sh /prepare/fetch-uv.sh /locks/uv.txt /uv && ls /uv && /uv/uv",
        {"/scripts": bundle, "/locks": lock.parent}, PIP_INDEX_URL=index.address,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("uv\nworks\n", 0), done.stderr


@pytest.mark.parametrize("right", [True, False])
def test_a_file_is_taken_only_with_its_hash(right: bool, tmp_path: Path, bundle: Path) -> None:
    with serving(lambda _: Reply(200, body=b"software")) as server:
        digest = hashlib.sha256(b"software" if right else b"other").hexdigest()
        command = f"sh /prepare/fetch-file.sh '{digest} {server.url}/software' /out && cat /out/file"
        done = run_step(tmp_path, command, {"/scripts": bundle})
    if right:
        assert (done.stdout, done.returncode) == ("software", 0), done.stderr
    else:
        assert done.returncode == 1
        assert f"/software: expected sha256 {digest}, found " in done.stderr


def run_rootfs(tmp_path: Path, *mirrors: str) -> subprocess.CompletedProcess[str]:
    """Run make-rootfs.sh beside stand-ins for apt-get and mmdebstrap."""
    programs, debian, ca = tmp_path / "programs", tmp_path / "debian", tmp_path / "ca"
    for folder in (programs, debian, ca):
        folder.mkdir()
    for name, text in {"mmdebstrap": MMDEBSTRAP, "apt-get": "#!/bin/sh\n"}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (debian / "versions.txt").write_text("# heading\nlibc6=2.36-9\nzlib1g=1:1.2.13\n")
    _, *words = suites.mmdebstrap_command("bookworm")
    arguments = shlex.join(word for word in words if word != "bookworm")
    command = shlex.join(["sh", "/prepare/make-rootfs.sh", "bookworm", arguments, *mirrors])
    command += " && cat /tmp/words && echo = && cat /tmp/kept && echo = && ls /rootfs"
    return run_step(
        tmp_path, command, {"/debian": debian, "/ca": ca, "/programs": programs},
        PATH=f"/programs:{os.environ['PATH']}",
    )  # fmt: skip


def make_rootfs(tmp_path: Path, *mirrors: str) -> tuple[list[str], str, str]:
    """The words that mmdebstrap gets, apt's preferences, and what lies in /rootfs."""
    done = run_rootfs(tmp_path, *mirrors)
    assert done.returncode == 0, done.stderr
    said, preferences, files = done.stdout.rsplit("\n=\n", 2)
    return said.splitlines(), preferences, files


def test_debian_is_made_as_on_a_host_of_dlc(tmp_path: Path) -> None:
    words, preferences, files = make_rootfs(tmp_path, "", "")
    _, *rest = suites.mmdebstrap_command("bookworm")
    assert words == [*suites.pin_arguments(Path("/tmp/recorded")), *rest, "/tmp/rootfs.tar"]
    assert preferences.strip() == suites.make_preferences({"libc6": "2.36-9", "zlib1g": "1:1.2.13"}).strip()
    assert files == "hostname\n"


def test_debian_may_come_from_a_day_of_the_snapshots(tmp_path: Path) -> None:
    words, *_ = make_rootfs(tmp_path, SNAPSHOT, SECURITY)
    assert words[-3:] == [
        f"deb [check-valid-until=no] {SNAPSHOT} bookworm main",
        f"deb [check-valid-until=no] {SNAPSHOT} bookworm-updates main",
        f"deb [check-valid-until=no] {SECURITY} bookworm-security main",
    ]


@pytest.mark.parametrize("mirrors", [(SNAPSHOT, ""), ("", SECURITY)], ids=["no security", "security alone"])
def test_one_mirror_without_the_other_is_refused(mirrors: tuple[str, str], tmp_path: Path) -> None:
    done = run_rootfs(tmp_path, *mirrors)
    assert done.returncode == 64
    assert "expected both or neither, found one: add the other --build-arg" in done.stderr
