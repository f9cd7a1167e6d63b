"""Serves a folder of wheels as a package index on this host's loopback: `python wheel_server.py FOLDER`.

For hosts that cannot reach an index of the buildspec: dlc takes the printed address as a mirror (DLC_INDEX_<NAME>).
Prints its address, then serves until it is ended. Standard library only.
"""

from __future__ import annotations

import hashlib
import http.server
import re
import sys
from functools import partial
from pathlib import Path


class Handler(http.server.SimpleHTTPRequestHandler):
    """`/simple/NAME/` lists the wheels of a project (PEP 503); `/FILE` is one of them."""

    def do_GET(self) -> None:
        """A page made on the spot, else the file."""
        if (page := re.fullmatch(r"/simple/([a-z0-9-]+)/?", self.path)) is None:
            super().do_GET()
            return
        files = [path for path in sorted(Path(self.directory).glob("*.whl")) if project(path) == page[1]]
        body = "".join(f'<a href="/{path.name}#sha256={sha256(path)}">{path.name}</a>\n' for path in files).encode()
        self.send_response(200 if files else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def project(wheel: Path) -> str:
    """The normal name of the project that a wheel is of."""
    return re.sub(r"[-_.]+", "-", wheel.name.partition("-")[0]).lower()


def sha256(path: Path) -> str:
    """Of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=sys.argv[1]))
    print(f"http://127.0.0.1:{server.server_port}/simple/", flush=True)
    server.serve_forever()
