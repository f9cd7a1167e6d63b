"""Package lists as uv resolves them, from wheels in a folder."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from dlc.buildspec.locks import resolve
from dlc.core.errors import LockError


def wheel(folder: Path, name: str, version: str, *requires: str) -> None:
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        lines = [f"Requires-Dist: {each}" for each in requires]
        archive.writestr(
            f"{info}/METADATA", "\n".join([f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *lines])
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place that packages come from."""
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    (tmp_path / "index").mkdir()
    monkeypatch.setenv("UV_DEFAULT_INDEX", (tmp_path / "index").as_uri())
    for name in ("UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    wheel(tmp_path, "dlc-flow", "2.2")
    wheel(tmp_path, "dlc-flow-cpu", "2.1")
    for version in ("2.1", "2.2"):
        wheel(tmp_path, "dlc-addon", version, f"dlc-flow=={version}")
    return tmp_path


def request(framework: str, training: Sequence[str], **more: object) -> resolve.LockRequest:
    return resolve.LockRequest((framework,), tuple(training), (), (), "3.11", "2.36", "sha256:00", **more)  # type: ignore[arg-type]


def test_what_asks_for_a_package_that_another_contains_brings_no_second_one_and_fits_its_version(wheels: Path) -> None:
    provided = {"dlc-flow": "dlc-flow-cpu==2.1"}
    texts = resolve.make_lock(request("dlc-flow-cpu==2.1", ["dlc-addon"], provided=provided))
    assert "dlc-addon==2.1" in texts["training.txt"]
    assert not any(line.startswith("dlc-flow==") for text in texts.values() for line in text.splitlines())


def test_a_lock_keeps_to_the_constraints(wheels: Path) -> None:
    assert "dlc-addon==2.2" in resolve.make_lock(request("dlc-flow-cpu==2.1", ["dlc-addon"]))["training.txt"]
    wheel(wheels, "dlc-addon", "2.0")
    limited = request("dlc-flow-cpu==2.1", ["dlc-addon"], constraints=("dlc-addon<2.1",))
    assert "dlc-addon==2.0" in resolve.make_lock(limited)["training.txt"]


def test_no_lock_is_made_for_another_cuda_than_the_devices(wheels: Path) -> None:
    wheel(wheels, "nvidia-cuda-runtime-cu12", "12.4.127")
    asked = ("dlc-flow-cpu==2.1", ["nvidia-cuda-runtime-cu12"])
    with pytest.raises(LockError, match=r"expected packages for device cu118, found .*==12.4.127, which is for cu124"):
        resolve.make_lock(request(*asked, device="cu118"))
    assert resolve.make_lock(request(*asked, device="cu124"))
