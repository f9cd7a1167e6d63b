"""benchmarks/gpu_host.py, rehearsed in an image as it runs on a bare GPU host: no network, pytest carried along."""

from __future__ import annotations

import json
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

from dlc.core.checkout import find_root
from harness.engine import CALM_OPTIONS, run_once
from harness.images import Image

pytestmark = pytest.mark.integration

MINUTES = 90  # a row that does not fit is left out: only a hang takes that long
SECONDS = MINUTES * 60.0 + 600
CARRIED = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")  # pure Python
KINDS = (
    "model bf16: compiling ahead", "model bert bf16 auto", "model bert bf16 eager", "trainer on", "trainer off",
    "feed local", "feed remote", "suite", "profile", "model bert bf16 rounded", "model bert bf16 inductor",
)  # fmt: skip


def carry(folder: Path) -> Path:
    """Make wheels of what runs these tests, as `--carry` downloads them."""
    folder.mkdir()
    for name in CARRIED:
        found = distribution(name)
        with zipfile.ZipFile(folder / f"{name}-{found.version}-py3-none-any.whl", "w") as wheel:
            for file in found.files or []:
                if file.suffix != ".pyc" and ".." not in file.parts:
                    wheel.write(file.locate(), file)
    return folder


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.when(framework="pytorch", version=">=2.13")
def test_each_kind_of_row_is_measured_on_a_cpu(image: Image, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    mounts = (f"--volume={find_root()}:/carried/dlc:ro", f"--volume={carry(tmp_path / 'wheels')}:/carried/wheels:ro")
    report = f"--volume={tmp_path / 'out'}:/out"
    done = run_once(
        image.ref, "/carried/dlc/benchmarks/gpu_host.py", "--rehearse", "--minutes", str(MINUTES),
        "--carried", "/carried/wheels", "--json", "/out/report.json",
        options=("--network=none", "--shm-size=1g", "--entrypoint=python", *mounts, report, *CALM_OPTIONS),
        seconds=SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    written = json.loads((tmp_path / "out/report.json").read_text())
    rows = {row["name"]: row for row in written["rows"]}
    assert tuple(rows) == KINDS
    assert {name: row["why"] for name, row in rows.items() if row["state"] != "measured"} == {}
    compared = {(each.get("model", "trainer"), each["way"]): each for each in written["compared"]}
    assert all(each["losses_compared"] > 0 for key, each in compared.items() if key[1] != "eager")
    assert rows["feed remote"]["figures"]["RemoteLoader"]["gb_per_second"] > 0
    assert rows["suite"]["figures"]["skipped"] > 0
    assert "no GPU: a rehearsal, whose figures say nothing" in done.stdout
    assert "| bert | bf16 | auto |" in done.stdout
