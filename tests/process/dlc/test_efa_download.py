"""EFA's installer comes by its hash alone, from a server that breaks off or gives something else."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from dlc.core.errors import LockError
from dlc.image_build import download
from dlc.plan.contexts import Pinned

CONTENT = bytes(range(256)) * 8192  # 2 MiB
SHA256 = hashlib.sha256(CONTENT).hexdigest()
OTHER = "0" * 64


class Vendor:
    """Serves CONTENT; breaks off after `limit` bytes, and continues where it is asked to if `ranges`."""

    def __init__(self) -> None:
        vendor, self.limit, self.ranges = self, len(CONTENT), True
        self.asked: list[str] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                vendor.asked.append(self.headers.get("Range", ""))
                first = int(vendor.asked[-1].removeprefix("bytes=").rstrip("-") or 0) if vendor.ranges else 0
                if first >= len(CONTENT):
                    return self.send_error(416)
                self.send_response(206 if first else 200)
                self.send_header("Content-Length", str(len(CONTENT) - first))
                self.end_headers()
                self.wfile.write(CONTENT[first : first + vendor.limit])
                return None

            def log_message(self, *words: object) -> None:
                """Say nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/aws-efa-installer.tar.gz"
        threading.Thread(target=partial(self.server.serve_forever, 0.01), daemon=True).start()


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    serving = Vendor()
    yield serving
    serving.server.shutdown()
    serving.server.server_close()


def got(url: str, cache: Path, sha256: str = SHA256) -> bytes:
    return (download.fetch(Pinned(sha256, url), cache, None) / download.FILE).read_bytes()


def test_a_file_of_the_right_hash_is_fetched_once(vendor: Vendor, tmp_path: Path) -> None:
    assert got(vendor.url, tmp_path) == got(vendor.url, tmp_path) == CONTENT
    assert vendor.asked == [""]


def test_a_file_of_another_hash_is_refused_and_the_next_run_is_not_troubled(vendor: Vendor, tmp_path: Path) -> None:
    with pytest.raises(LockError, match=f"{vendor.url}: expected sha256 {OTHER}, found {SHA256}"):
        got(vendor.url, tmp_path, OTHER)
    assert list((tmp_path / "pinned").iterdir()) == []
    assert got(vendor.url, tmp_path) == CONTENT


@pytest.mark.parametrize("ranges", [True, False])
def test_a_download_that_broke_off_goes_on_in_the_next_run(
    vendor: Vendor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranges: bool
) -> None:
    monkeypatch.setattr(download, "PAUSES_SECONDS", ())
    vendor.limit, vendor.ranges = len(CONTENT) // 2, ranges
    with pytest.raises(LockError, match="run again"):
        got(vendor.url, tmp_path)
    vendor.limit = len(CONTENT)
    assert got(vendor.url, tmp_path) == CONTENT
    assert vendor.asked == ["", f"bytes={len(CONTENT) // 2}-"]


def test_a_download_that_was_killed_after_its_last_byte_is_taken(vendor: Vendor, tmp_path: Path) -> None:
    (tmp_path / "pinned").mkdir()
    (tmp_path / "pinned" / f"{SHA256}.part").write_bytes(CONTENT)
    assert got(vendor.url, tmp_path) == CONTENT
