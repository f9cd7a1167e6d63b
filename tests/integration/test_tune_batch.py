"""dlc tune-batch, with real containers: the batch that it names fits under the limit, and a larger one does not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from dlc.core.checkout import find_root
from harness.engine import CALM_OPTIONS
from harness.images import Image
from harness.toy import command, environment

SCRIPTS = Path(__file__).parent / "scripts"
SAMPLE = 1 << 20  # bytes of activations
LIMIT = 2 << 30
BOUND_SECONDS = 1800.0  # only a hang takes that long

pytestmark = [pytest.mark.integration, pytest.mark.timeout(BOUND_SECONDS + 60)]


@pytest.mark.long
@pytest.mark.when(framework="pytorch", version=">=2.2")
def test_the_largest_batch_of_a_torch_script_fits_under_the_limit(image: Image, tmp_path: Path) -> None:
    the_largest_batch_fits(image, tmp_path, "wide_torch.py")


@pytest.mark.long
@pytest.mark.when(framework="tensorflow")
def test_the_largest_batch_of_a_keras_script_fits_under_the_limit(image: Image, tmp_path: Path) -> None:
    the_largest_batch_fits(image, tmp_path, "wide_keras.py")


def the_largest_batch_fits(image: Image, tmp_path: Path, script: str) -> None:
    """And the learning rate is scaled to it."""
    words = ("--hp-name", "batch-size", "--hp", "batch-size=128", "--hp", "learning-rate=0.1")
    limits = ("--lr-name", "learning-rate", "--memory", str(LIMIT), "--steps", "2", *CALM_OPTIONS)
    results = ("--output", str(tmp_path / "out"), "--json")
    settings = environment(DLC_CACHE_DIR=str(tmp_path / "cache"))
    done = subprocess.run(
        command("tune-batch", *words, *limits, *results, image.ref, str(SCRIPTS / script)), cwd=find_root(),
        env=settings, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [mode] = json.loads(done.stdout)["modes"]
    batch = mode["recommended_batch"]
    [best] = [trial for trial in mode["trials"] if trial["batch"] == batch]
    assert 128 <= batch <= LIMIT / SAMPLE
    assert batch * SAMPLE <= best["peak_bytes"] <= 0.9 * LIMIT
    assert best["limit_bytes"] == LIMIT
    assert {trial["outcome"] for trial in mode["trials"] if trial["batch"] > batch} <= {"memory", "tight"}
    assert mode["learning_rate"]["linear"] == pytest.approx(0.1 * batch / 128)
