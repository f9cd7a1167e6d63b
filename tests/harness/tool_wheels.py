"""Small wheels of dlc, as `tool` in dlc.yml names them: their record and the lock of their needs, and no code."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from dlc.buildspec.tool_pin import NEEDS
from dlc.core.checkout import IN_WHEEL

NEED = "einops==0.8.1 \\\n    --hash=sha256:00\n"


def make_tool_wheel(folder: Path, version: str = "1.0.0", needs: str | None = NEED) -> tuple[Path, str]:
    """Make a wheel; return it and its sha256."""
    path = folder / f"dlc-{version}-py3-none-any.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(f"dlc-{version}.dist-info/RECORD"), f"dlc-{version}.dist-info/RECORD,,\n")
        if needs is not None:
            archive.writestr(zipfile.ZipInfo(IN_WHEEL + NEEDS), needs)
    return path, hashlib.sha256(path.read_bytes()).hexdigest()
