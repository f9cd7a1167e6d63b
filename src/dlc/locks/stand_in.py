"""Wheels without files that stand for packages which others contain, so that a resolution takes no second one."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path


def write(provided: Mapping[str, str], folder: Path) -> list[str]:
    """One wheel for each package of `provided` (name -> `provider==version`); returns the requirements that name them.

    A wheel has its provider's version: what asks for another version of the package finds no solution.
    """
    return [f"{name} @ {_wheel(name, provider, folder).as_uri()}" for name, provider in provided.items()]


def _wheel(name: str, provider: str, folder: Path) -> Path:
    version = provider.partition("==")[2].partition("+")[0]
    stem = f"{name.replace('-', '_')}-{version}"
    path = folder / f"{stem}-py3-none-any.whl"
    info = f"{stem}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        wheel.writestr(f"{info}/METADATA", f"{head}Requires-Dist: {provider}\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: dlc\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "".join(f"{info}/{each},,\n" for each in ("METADATA", "WHEEL", "RECORD")))
    return path
