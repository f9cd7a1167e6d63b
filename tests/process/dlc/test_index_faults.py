"""Package indexes behind a login, and proxies that refuse or cut off: told as what they are; no byte is taken wrong.

Real servers on this host's loopback, the real resolver and the real installer.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from scripted_server import Asked, Reply, serving

from dlc.buildspec.locks import resolve
from dlc.buildspec.variant import IndexedPackages
from dlc.core.errors import LockError, PackageIndexError
from dlc.image_build import wheels
from harness.package_index import PackageIndex

PIN = "dlc-local==2.13.0+cpu"
WHEEL = "dlc_local-2.13.0+cpu-py3-none-any.whl"
SECRET = "correct-horse"
LOGIN = "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()
VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "PIP_INDEX_URL",
             "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "DLC_INDEX_SPECIAL")  # fmt: skip
PROXIES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
ELSEWHERE = "index.example/simple/"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackageIndex:
    """What an index serves: one wheel. Nothing is asked of the network, and no client has seen it before."""
    for name in (*VARIABLES, *PROXIES):
        monkeypatch.delenv(name, raising=False)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("UV_NO_CACHE", "1")
    resolve._why_lacking.cache_clear()
    found = PackageIndex(tmp_path, "127.0.0.1")
    found.add("dlc-local", "2.13.0+cpu")
    return found


def served(files: PackageIndex, path: str) -> Reply:
    file = files.folder / path.lstrip("/").replace("%2B", "+")
    file = file / "index.html" if file.is_dir() else file
    kind = "text/html" if file.suffix == ".html" else "application/octet-stream"
    return Reply(200, {"Content-Type": kind}, file.read_bytes()) if file.is_file() else Reply(404)


def indexed(address: str) -> list[IndexedPackages]:
    return [IndexedPackages("special", address, ("dlc-local",), "3.11", "2.36")]


def locked(address: str) -> str:
    asked = resolve.LockRequest((PIN,), (), (), (), "3.11", "2.36", "sha256:00", tuple(indexed(address)))
    return resolve.make_lock(asked)["framework.txt"]


def taken(files: PackageIndex, address: str) -> Path:
    """The wheel that a build gets from the index by the lock's hash."""
    digest = (files.folder / "simple/dlc-local/index.html").read_text().partition("#sha256=")[2].partition('"')[0]
    found = files.folder / "wheels"
    found.mkdir(exist_ok=True)
    wheels.add_from_indexes(f"{PIN} \\\n    --hash=sha256:{digest}\n", indexed(address), found, files.folder / "cache")
    return found / WHEEL


def test_a_wheel_of_an_index_with_flipped_bytes_in_the_cache_is_fetched_again(
    files: PackageIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(lambda asked: served(files, asked.path)) as server:
        wheel = taken(files, f"{server.url}/simple/")
        whole = wheel.read_bytes()
        wheel.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # of both: it is one file with that in the cache
        wheel.unlink()
        assert taken(files, f"{server.url}/simple/").read_bytes() == whole
    assert capsys.readouterr().err.count("not as it was written; made anew") == 1


def test_a_login_of_netrc_reaches_the_index_and_no_message(files: PackageIndex) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.headers.get("Authorization") != LOGIN:
            return Reply(401, {"WWW-Authenticate": 'Basic realm="index"'})
        return served(files, asked.path)

    netrc = files.folder / "netrc"
    with serving(answer) as server:
        address = f"{server.url}/simple/"
        netrc.write_text(f"machine 127.0.0.1 login me password {SECRET}\n")
        assert PIN in locked(address)
        assert taken(files, address).is_file()
        taken(files, address).unlink()
        netrc.write_text(f"machine 127.0.0.1 login me password wrong-{SECRET}\n")
        wheels.remove_unlocked(next((files.folder / "cache/index-wheels").iterdir()), [])
        for act in (lambda: locked(address), lambda: taken(files, address)):
            with pytest.raises(PackageIndexError, match="401") as caught:
                act()
            assert SECRET not in str(caught.value)
            assert "~/.netrc" in caught.value.remedy


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("act", [lambda _, address: locked(address), taken], ids=["lock", "build"])
def test_a_proxy_that_refuses_is_not_taken_for_an_index_that_lacks_the_package(
    act: Callable[[PackageIndex, str], object], scheme: str, files: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(lambda _: Reply(403)) as proxy:
        for name in PROXIES:
            monkeypatch.setenv(name, proxy.url)
        with pytest.raises(PackageIndexError, match=r"403|[Pp]roxy|tunnel") as caught:
            act(files, f"{scheme}://{ELSEWHERE}")
    assert ELSEWHERE in caught.value.message
    assert scheme == "https" or "NO_PROXY" in caught.value.remedy


# A lock takes the hash from the page, and reads of a wheel only the part that says what it requires.
@pytest.mark.parametrize(
    ("cut", "act"),
    [("/simple/", lambda _, address: locked(address)), ("/simple/", taken), ("/files/", taken)],
    ids=["page, lock", "page, build", "wheel, build"],
)
def test_what_a_proxy_cuts_off_is_not_taken_for_the_whole(
    cut: str, act: Callable[[PackageIndex, str], object], files: PackageIndex
) -> None:
    def answer(asked: Asked) -> Reply:
        whole = served(files, asked.path)
        if not asked.path.startswith(cut):
            return whole
        length = {"Content-Length": str(len(whole.body))}
        return Reply(200, {**whole.headers, **length}, whole.body[: len(whole.body) // 2])

    with serving(answer) as server, pytest.raises((LockError, PackageIndexError)):
        act(files, f"{server.url}/simple/")
    assert list(files.folder.glob("wheels/*")) == []
