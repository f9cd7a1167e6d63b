"""A package index of a test's own: wheels made on the spot, at an address that containers reach; it can go away."""

from __future__ import annotations

import hashlib
import http.server
import re
import shutil
import threading
import zipfile
from pathlib import Path
from typing import Any

from harness.engine import docker


class PackageIndex:
    """Serves `folder`; between `stop` and `start` its port is closed, as of a server that is gone.

    `host` is the address that it listens on, by default one of this host that containers reach. `asked` has the path
    of each request.
    """

    def __init__(self, folder: Path, host: str = "") -> None:
        self.folder = folder
        self.asked: list[str] = []
        # The engine's bridge is an address of this host that containers reach.
        self.host = (
            host
            or docker("network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}").stdout.strip()
        )
        self.port = 0
        self.last = ""
        self._server: http.server.ThreadingHTTPServer | None = None

    @property
    def variables(self) -> dict[str, str]:
        """What points dlc at it."""
        return {"UV_DEFAULT_INDEX": self.address, **self.direct}

    @property
    def address(self) -> str:
        """Of its simple pages."""
        return f"http://{self.host}:{self.port}/simple/"

    @property
    def direct(self) -> dict[str, str]:
        """What keeps proxies away from it."""
        return {"no_proxy": self.host, "NO_PROXY": self.host}

    def add(self, name: str, version: str, content: str = "") -> Path:
        """A wheel of one module; `content` makes it another file of the same name. Returns its path."""
        module = name.replace("-", "_")
        wheel = self.folder / "files" / f"{module}-{version}-py3-none-any.whl"
        wheel.parent.mkdir(exist_ok=True)
        about = f"{module}-{version}.dist-info"
        files = {
            f"{module}.py": f"content = {content!r}\n",
            f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{about}/RECORD": f"{module}.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n",
        }
        with zipfile.ZipFile(wheel, "w") as archive:
            for path, text in files.items():
                archive.writestr(zipfile.ZipInfo(path), text)  # without the time of day: equal content, equal file
        self._list(name, wheel)
        return wheel

    def hold(self, *files: Path) -> None:
        """Wheels and archives of sources that exist already, each the only one of its project."""
        (self.folder / "files").mkdir(exist_ok=True)
        for file in files:
            project = re.sub(r"[-_.]+", "-", re.split(r"-(?=\d)", file.name)[0]).lower()
            self._list(project, Path(shutil.copy(file, self.folder / "files")))

    def _list(self, project: str, file: Path) -> None:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        page = self.folder / "simple" / project / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f'<a href="/files/{file.name}#sha256={digest}">{file.name}</a>\n')

    def start(self, last: str = "") -> None:
        """Answer, on the same port as before; stop by itself once the file of the package `last` was fetched."""
        self.last = last.replace("-", "_")
        index = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args, directory=str(index.folder))

            def do_GET(self) -> None:
                index.asked.append(self.path)
                super().do_GET()
                if index.last and self.path.startswith(f"/files/{index.last}-"):
                    threading.Thread(target=index.stop).start()

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = http.server.ThreadingHTTPServer((self.host, self.port), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Close the port."""
        server, self._server = self._server, None
        if server:
            server.shutdown()
            server.server_close()
