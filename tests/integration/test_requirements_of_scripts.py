"""What a script's requirements.txt brings: wheels of an index, a source that is compiled, a git repository."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.images import Image
from harness.package_index import PackageIndex
from harness.sdk2 import ends_as_one, estimator_job
from harness.user_scripts import SCRIPTS, brought

pytestmark = pytest.mark.integration

TORCHRUN = {"sagemaker_torch_distributed_enabled": True}


@pytest.fixture(scope="module")
def index(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PackageIndex]:
    """An index that the containers reach: packages of this host's index, and one as source only."""
    wheels = brought(tmp_path_factory.mktemp("wheels"))
    if not wheels:
        pytest.skip("this host reaches no package index")
    source = tmp_path_factory.mktemp("sources") / "native-1.0.tar.gz"
    with tarfile.open(source, "w:gz") as archive:
        archive.add(SCRIPTS / "native_package", "native-1.0")
    index = PackageIndex(tmp_path_factory.mktemp("index"))
    index.hold(source, *wheels)
    index.start()
    yield index
    index.stop()


def pip_variables(index: PackageIndex) -> dict[str, str]:
    """What points a container's pip at the index, and at no other."""
    return {"PIP_INDEX_URL": index.address, "PIP_TRUSTED_HOST": index.host, **index.direct}


@pytest.mark.when(framework="pytorch", version=">=2.6")  # Lightning takes PyTorch from 2.1 on
def test_lightning_of_an_index_trains_on_two_hosts_as_one(image: Image, index: PackageIndex, tmp_path: Path) -> None:
    job = estimator_job(
        image, tmp_path, SCRIPTS / "pytorch_lightning", "train.py", dependencies=(SCRIPTS / "report.py",), hosts=2,
        hyperparameters={**TORCHRUN, "epochs": 5}, environment=pip_variables(index),
    )  # fmt: skip
    with job:
        ranks = ends_as_one(job)
        assert ranks[0]["accuracy"] > 0.8
        assert ranks[0]["steps"] == 5 * -(-1500 // (32 * 2)), "the hosts share the batches"
        assert "lightning-utilities" in job.log()


def test_a_source_of_an_index_is_compiled(image: Image, index: PackageIndex, tmp_path: Path) -> None:
    code = shutil.copytree(SCRIPTS / "needs_native", tmp_path / "code")
    (code / "requirements.txt").write_text("# no wheel anywhere\nnative==1.0\n")
    with estimator_job(image, tmp_path / "job", code, "train.py", environment=pip_variables(index)) as job:
        assert job.wait() == {"algo-1": 0}
        found = json.loads((job.opt_ml() / "model/native.json").read_text())
    assert found["sum"] == 3.5
    assert found["file"].startswith("/opt/venv/lib/")


def test_a_git_repository_beside_the_script_is_installed(image: Image, index: PackageIndex, tmp_path: Path) -> None:
    code = shutil.copytree(SCRIPTS / "needs_native", tmp_path / "code")
    repository = shutil.copytree(SCRIPTS / "native_package", code / "native")
    for argv in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "native"]):
        identity = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(repository), *identity, *argv], check=True, timeout=60)
    (code / "requirements.txt").write_text("native @ git+file:///opt/ml/code/native\n")
    with estimator_job(image, tmp_path / "job", code, "train.py", environment=pip_variables(index)) as job:
        assert job.wait() == {"algo-1": 0}
        assert json.loads((job.opt_ml() / "model/native.json").read_text())["sum"] == 3.5
