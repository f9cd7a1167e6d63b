"""SageMaker's SDKs in their own local mode: they write a file for `docker compose`, which starts the hosts.

All of it is theirs: estimator or trainer, files, containers, what they make of the results.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlc.core.checkout import find_root
from harness.client_packages import install_client, run_client
from harness.engine import HANG_BOUND, connect, docker
from harness.images import Image

pytestmark = [
    pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1800),
    pytest.mark.when(framework="pytorch", version=">=2.6"),
]  # fmt: skip

FOLDER = Path(__file__).parent
CLIENT = FOLDER / "clients" / "local_mode.py"
EXAMPLE = find_root() / "examples/pytorch"
PROJECT = "com.docker.compose.project"
# Neither SDK asks or tells anybody anything: no account, no metadata of a machine, no report of what was called.
ALONE = {
    "AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none", "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}  # fmt: skip
SILENT = {"SchemaVersion": "1.0", "SageMaker": {"PythonSDK": {"Modules": {"TelemetryOptOut": True}}}}


@pytest.fixture(scope="module")
def sdk2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with SDK 2."""
    return install_client("sagemaker-2", tmp_path_factory.mktemp("sdk2"))


@pytest.fixture(scope="module")
def sdk3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with SDK 3."""
    return install_client("sagemaker-3", tmp_path_factory.mktemp("sdk3"))


@pytest.fixture
def compose(engine: None, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Variables for an SDK whose containers are this test's alone; they are gone afterwards."""
    if shutil.which("docker-compose") is None:
        found = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
        if found.returncode:
            pytest.skip("no docker compose, by which the SDKs start hosts")
    project = f"dlc-test-{time.monotonic_ns():x}"
    (tmp_path / "config.yaml").write_text(json.dumps(SILENT))  # JSON is YAML
    own = {"COMPOSE_PROJECT_NAME": project, "SAGEMAKER_USER_CONFIG_OVERRIDE": str(tmp_path / "config.yaml")}
    yield {**ALONE, **own, **connect().environment}
    for kind, remove in (("container", ("rm", "--force", "--volumes")), ("network", ("network", "rm"))):
        list_words = ("ps", "--all") if kind == "container" else ("network", "ls")
        found_ids = docker(*list_words, "--quiet", "--filter", f"label={PROJECT}={project}").stdout.split()
        if found_ids:
            docker(*remove, *found_ids, check=False)


def list_model(archive: Path) -> list[str]:
    """Names of the files of a model's archive."""
    with tarfile.open(archive) as packed:
        return [member.name for member in packed if member.isfile()]


def test_sdk_2_trains_on_two_hosts_as_one(sdk2: Path, image: Image, compose: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    words = (image.ref, str(EXAMPLE), "train.py", "2", str(tmp_path / "work"))
    done = run_client(sdk2, CLIENT, "2", *words, env=compose, seconds=3 * HANG_BOUND)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rank=0 of 2" in done.stdout, done.stdout
    assert "rank=1 of 2" in done.stdout, done.stdout
    assert list_model(tmp_path / "work/model.tar.gz") == ["model.pt"]


def test_sdk_2_says_the_code_of_a_script_that_fails(
    sdk2: Path, image: Image, compose: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    words = (image.ref, str(FOLDER / "scripts"), "exit_three.py", "2", str(tmp_path / "work"))
    done = run_client(sdk2, CLIENT, "2", *words, env=compose, seconds=3 * HANG_BOUND)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "channel training holds no parquet file" in done.stdout
    assert "exited with code 3" in done.stdout


def test_sdk_3_trains_below_torchrun(sdk3: Path, image: Image, compose: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    words = (image.ref, str(EXAMPLE), "train.py", "1", str(tmp_path / "work"))
    done = run_client(sdk3, CLIENT, "3", *words, env=compose, seconds=3 * HANG_BOUND)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list_model(tmp_path / "work/compressed_artifacts/model.tar.gz") == ["model.pt"]
