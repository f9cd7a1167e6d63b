"""A git repository of one Python package, `tiny`, which is built without asking an index."""

from __future__ import annotations

import subprocess
from pathlib import Path

# A build backend in the repository itself, so that no index is asked.
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
BACKEND = """\
import os, time, zipfile

def build_wheel(folder, settings=None, metadata=None):
    name = "tiny-{version}-{tag}.whl"
    moment = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        for path, text in (
            ("tiny.py", "version = '{version}'\\n"),
            ("tiny-{version}.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: {version}\\n"),
            ("tiny-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: {tag}\\n"),
            ("tiny-{version}.dist-info/RECORD", ""),
        ):
            archive.writestr(zipfile.ZipInfo(path, moment), text)
    return name
"""


class Repository:
    """A git repository of one package."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"git+{folder.as_uri()}"
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch", "main")

    def git(self, *words: str) -> str:
        names = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"]
        done = subprocess.run(["git", *names, *words], cwd=self.folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, version: str, tag: str = "py3-none-any") -> str:
        (self.folder / "pyproject.toml").write_text(PROJECT)
        (self.folder / "backend.py").write_text(BACKEND.replace("{version}", version).replace("{tag}", tag))
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", version)
        return self.git("rev-parse", "HEAD")
