"""`docker run --user 1000 --read-only` with a tmpfs at /tmp trains: compiled, and with requirements."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from dlc.core.checkout import find_root
from harness.empty_wheel import write_wheel
from harness.engine import CALM_OPTIONS, run_once
from harness.images import Image
from harness.opt_ml import lay_out

pytestmark = pytest.mark.integration

UID = 1000  # has no entry in the image's /etc/passwd
# Docker's own seccomp profile, whatever the engine's default: Kubernetes' RuntimeDefault is the runtime's copy of it.
SECURITY = ("--security-opt", "seccomp=builtin", "--security-opt", "no-new-privileges")
# A tmpfs of Docker's is noexec unless it is told otherwise, and what torch.compile makes is loaded from there.
CONFINED = ("--cap-drop", "ALL", *SECURITY, "--read-only", "--tmpfs", "/tmp:exec")
TRAIN_SECONDS = 600.0


def given_to(uid: int, folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, uid, uid, follow_symlinks=False)


@pytest.mark.when(python=">=3.10", version=">=2.0")  # the examples are for frameworks of today
@pytest.mark.parametrize("user", [UID, pytest.param(0, marks=pytest.mark.long)])
def test_it_trains_where_only_opt_ml_and_tmp_can_be_written(image: Image, tmp_path: Path, user: int) -> None:
    script = find_root() / "examples" / image.framework / "train.py"
    opt_ml = lay_out(tmp_path / "ml", script, hyperparameters={"compile": user != 0, "epochs": 15})
    write_wheel(opt_ml / "code", "something_new", "1.0")
    (opt_ml / "code/requirements.txt").write_text("--no-index\n--find-links .\nsomething-new\n")
    given_to(user, opt_ml)
    options = ("--user", str(user), *CONFINED, *CALM_OPTIONS, "--volume", f"{opt_ml}:/opt/ml")
    done = run_once(image.ref, options=options, seconds=TRAIN_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Successfully installed something[-_]new-1\.0", done.stdout)
    metrics = json.loads((opt_ml / "output/data/metrics-rank0.json").read_text())
    assert metrics["accuracy"] >= 0.95, done.stdout
    assert [file.stem for file in (opt_ml / "model").iterdir()] == ["model"]
