"""download: builds at the same time share one download, and what a disk refuses is not blamed on the network."""

from __future__ import annotations

import hashlib
import http.server
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from scripted_server import Reply, refusing_proxy, serving

from dlc.core.errors import DiskError, LockError, UsageError
from dlc.image_build import download
from dlc.plan.contexts import Pinned

CONTENT = bytes(range(256)) * 4096
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PIECES = 16
FETCH = """
import sys
from pathlib import Path
from dlc.image_build import download
from dlc.plan.contexts import Pinned
folder = download.fetch(Pinned(sys.argv[1], sys.argv[2]), Path(sys.argv[3]), None)
print(len((folder / download.FILE).read_bytes()))
"""


class SlowServer(http.server.ThreadingHTTPServer):
    """Serves CONTENT in pieces, with a pause after each, the second half when it may go on; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.sent = 0
        self.pause = 0.05
        self.go_on = threading.Event()
        self.go_on.set()
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(http.server.BaseHTTPRequestHandler):
    server: SlowServer

    def do_GET(self) -> None:
        wanted = self.headers.get("Range", "")
        self.server.asked.append(wanted)
        first = int(wanted.removeprefix("bytes=").rstrip("-") or 0)
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(CONTENT) - first))
        self.end_headers()
        size = len(CONTENT) // PIECES
        for start in range(first, len(CONTENT), size):
            self.wfile.write(CONTENT[start : start + size])
            self.server.sent += size
            time.sleep(self.server.pause)
            if start >= len(CONTENT) // 2:
                self.server.go_on.wait(60)

    def log_message(self, *words: object) -> None:
        """Say nothing."""


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "PAUSES_SECONDS", (0.0, 0.0), raising=False)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    serving = SlowServer()
    threading.Thread(target=partial(serving.serve_forever, 0.01), daemon=True).start()
    yield serving
    serving.shutdown()
    serving.server_close()


def start(server: SlowServer, cache: Path) -> subprocess.Popen[str]:
    url = f"http://127.0.0.1:{server.server_port}/installer.tar.gz"
    argv = [sys.executable, "-c", FETCH, SHA256, url, str(cache)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_builds_at_the_same_time_fetch_a_file_once(server: SlowServer, tmp_path: Path) -> None:
    builds = [start(server, tmp_path) for _ in range(3)]
    outputs = [build.communicate(timeout=60) for build in builds]
    assert [output for output, _ in outputs] == [f"{len(CONTENT)}\n"] * 3, outputs
    assert server.asked == [""]
    assert not (tmp_path / "pinned" / f"{SHA256}.part").exists()


def test_a_file_that_was_damaged_in_the_cache_is_fetched_again(
    server: SlowServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.pause = 0.0
    pinned = Pinned(SHA256, f"http://127.0.0.1:{server.server_port}/installer.tar.gz")
    kept = download.fetch(pinned, tmp_path, None) / download.FILE
    kept.write_bytes(CONTENT[:-1] + b"\0")
    assert (download.fetch(pinned, tmp_path, None) / download.FILE).read_bytes() == CONTENT
    assert server.asked == ["", ""]
    assert f"{kept}: not as it was written; made anew" in capsys.readouterr().err


def test_a_killed_download_is_continued_by_the_one_that_waited_for_it(server: SlowServer, tmp_path: Path) -> None:
    server.go_on.clear()
    first = start(server, tmp_path)
    part = tmp_path / "pinned" / f"{SHA256}.part"
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.02)
    second = start(server, tmp_path)
    assert second.stderr
    assert "waiting for another dlc" in second.stderr.readline()
    first.kill()
    server.go_on.set()
    output, errors = second.communicate(timeout=60)
    first.communicate()
    assert output == f"{len(CONTENT)}\n", errors
    assert server.asked[0] == ""
    assert server.asked[1].startswith("bytes=")


def test_a_full_disk_is_not_said_to_be_the_networks_fault(server: SlowServer, tmp_path: Path) -> None:
    (tmp_path / "pinned").mkdir()
    (tmp_path / "pinned" / f"{SHA256}.part").symlink_to("/dev/full")
    url = f"http://127.0.0.1:{server.server_port}/installer.tar.gz"
    with pytest.raises(DiskError, match=f"{tmp_path / 'pinned'}: the disk is full"):
        download.fetch(Pinned(SHA256, url), tmp_path, None)


@pytest.mark.parametrize(("status", "remedy"), [(429, "run again"), (503, "run again"), (404, "correct the address")])
def test_a_server_that_is_busy_is_not_said_to_have_another_address(status: int, remedy: str, tmp_path: Path) -> None:
    with serving(lambda _: Reply(status)) as server, pytest.raises(LockError) as caught:
        download.fetch(Pinned(SHA256, f"{server.url}/x"), tmp_path, None)
    assert remedy in caught.value.remedy


def test_a_proxy_that_refuses_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with refusing_proxy(403, monkeypatch):
        with pytest.raises(LockError, match="403") as caught:
            download.fetch(Pinned(SHA256, "https://files.example/x"), tmp_path, None)
        assert "NO_PROXY" in caught.value.remedy
        del caught


def test_a_download_that_is_cut_off_is_continued(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    half = Reply(200, {"Content-Length": str(len(CONTENT))}, CONTENT[: len(CONTENT) // 2])
    with serving(lambda asked: Reply(206, body=CONTENT[len(half.body) :]) if "Range" in asked.headers else half) as cut:
        pinned = Pinned(SHA256, f"{cut.url}/x")
        assert (download.fetch(pinned, tmp_path, None) / download.FILE).read_bytes() == CONTENT
    assert "IncompleteRead" in capsys.readouterr().err


@pytest.mark.parametrize(("status", "expected"), [(503, 3), (429, 3), (404, 1)])
def test_only_a_fault_that_may_pass_is_tried_again(status: int, expected: int, tmp_path: Path) -> None:
    replies = [Reply(status)] * 3
    with serving(lambda _: replies.pop()) as server, pytest.raises(LockError):
        download.fetch(Pinned(SHA256, f"{server.url}/x"), tmp_path, None)
    assert 3 - len(replies) == expected


def test_the_second_answer_of_a_busy_server_is_taken(tmp_path: Path) -> None:
    replies = [Reply(503), Reply(200, body=CONTENT)]
    with serving(lambda _: replies.pop(0)) as server:
        pinned = Pinned(SHA256, f"{server.url}/x")
        assert (download.fetch(pinned, tmp_path, None) / download.FILE).read_bytes() == CONTENT


@pytest.mark.parametrize(
    "url", ["http://[::1/x", "http://a..b/x", "http://127.0.0.1:port/x", "http://127.0.0.1:9/\u00e9"]
)
def test_an_address_that_is_none_is_an_error_with_a_remedy(url: str, tmp_path: Path) -> None:
    with pytest.raises(LockError, match="expected an address"):
        download.fetch(Pinned(SHA256, url), tmp_path, None)


@pytest.mark.parametrize("proxy", ["http:/proxy:3128", "http://proxy:port"])
def test_a_proxy_that_is_none_is_said(proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, proxy)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(LockError) as caught:
        download.fetch(Pinned(SHA256, "http://files.example/x"), tmp_path, None)
    assert "HTTP_PROXY" in caught.value.remedy


def test_a_bundle_that_holds_no_certificates_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"\xff\0")
    with pytest.raises(UsageError, match=r"ca\.pem: expected certificates in PEM"):
        download.fetch(Pinned("0" * 64, "https://127.0.0.1:9/file"), tmp_path / "cache", tmp_path / "ca.pem")
