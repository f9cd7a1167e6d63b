"""locks.wheel_size: every package of a lock has a size, from the index, the disk or the server of its file."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlc.core.errors import LockError
from dlc.locks.wheel_size import sizes

WHEEL = b"0123456789"


class OneWheel(http.server.SimpleHTTPRequestHandler):
    """A server of one file."""

    def do_HEAD(self) -> None:
        self.send_response(200 if self.path == "/six.whl" else 404)
        self.send_header("Content-Length", str(len(WHEEL)))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), OneWheel) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def package(name: str, *files: str) -> str:
    return f'[[packages]]\nname = "{name}"\nversion = "1"\nwheels = [{", ".join(files)}]\n'


def test_the_index_itself_says_sizes_and_the_largest_of_several_wheels_counts() -> None:
    wheels = ['{ url = "https://x.invalid/a.whl", size = 7 }', '{ url = "https://x.invalid/b.whl", size = 9 }']
    assert sizes(package("My_Pkg", *wheels)) == {"my-pkg": 9}


def test_a_local_wheel_is_measured_where_it_lies(tmp_path: Path) -> None:
    wheel = tmp_path / "torch-2.13.0+cpu.whl"
    wheel.write_bytes(WHEEL)
    assert sizes(package("torch", f'{{ url = "file://{tmp_path}/torch-2.13.0%2Bcpu.whl" }}')) == {"torch": 10}


def test_a_source_distribution_counts_where_there_is_no_wheel() -> None:
    text = '[[packages]]\nname = "horovod"\nsdist = { url = "https://x.invalid/h.tar.gz", size = 3 }\n'
    assert sizes(text) == {"horovod": 3}


def test_a_server_is_asked_where_the_index_does_not_say(address: str) -> None:
    assert sizes(package("six", f'{{ url = "{address}/six.whl" }}')) == {"six": 10}


def test_a_server_that_does_not_answer_is_named(address: str) -> None:
    with pytest.raises(LockError, match=r"127\.0\.0\.1/gone\.whl: its length: HTTP Error 404"):
        sizes(package("gone", f'{{ url = "{address}/gone.whl" }}'))


def test_a_lock_of_nothing_has_no_sizes() -> None:
    assert sizes('lock-version = "1.0"\n') == {}
