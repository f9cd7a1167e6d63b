"""One job in four places: the file of the heterogeneous example, as it stands, ends well in each, with its results."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlc.cli import run
from dlc.core.checkout import find_root
from dlc.core.process import run_program
from harness.engine import CALM
from harness.images import Image
from harness.oci_bundle import make_bundle
from harness.pods import COMPLETED, Cluster, render_objects
from harness.sagemaker import ROLE, open_account, push_image, serving_aws
from harness.sagemaker_hosts import find_bridge, make_hosts
from harness.slurm import Slurm, can_run
from harness.toy import command, environment

# Only a hang takes that long.
SECONDS = 1800.0
pytestmark = [
    pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(2 * SECONDS),
    pytest.mark.when(framework="pytorch", version=">=2.6"),
]  # fmt: skip
EXAMPLE = "examples/heterogeneous/pytorch"
DOCUMENTED = "dlc/pytorch:2.13-training-cpu-py311"
EPOCHS, DIGITS = 3, 1437
TYPES = {"data_group": "ml.c5.xlarge", "dnn_group": "ml.c5.2xlarge"}
NODES = ("n1", "n2", "n3")


@pytest.fixture
def file(image: Image, tmp_path: Path) -> Path:
    """The example's file, of the image under test."""
    folder = shutil.copytree(find_root() / EXAMPLE, tmp_path / "example")
    text = (folder / "job.yml").read_text()
    assert DOCUMENTED in text
    (folder / "job.yml").write_text(text.replace(DOCUMENTED, image.ref))
    return folder / "job.yml"


def check_results(model: Path, output: Path, prepared_on: set[str]) -> None:
    """The model is there and has learned, and each image was prepared once an epoch, on the hosts of the data group."""
    assert [path.name for path in model.iterdir()] == ["model.pt"]
    metrics = json.loads((output / "metrics-rank0.json").read_text())
    assert set(metrics["prepared_on"]) == prepared_on
    assert sum(metrics["prepared_on"].values()) == EPOCHS * DIGITS
    assert metrics["accuracy"] > 0.8


def test_on_this_machine(file: Path, tmp_path: Path) -> None:
    settings = environment(DLC_CACHE_DIR=str(tmp_path / "cache"))
    words = command("run", str(file), "--output", str(tmp_path / "results"))
    done = run_program(words, cwd=find_root(), env=settings, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    check_results(tmp_path / "results/model", tmp_path / "results/output", {"algo-1", "algo-2"})


@pytest.mark.parametrize("kind", ["jobset", "trainjob"])
def test_in_pods(file: Path, image: Image, tmp_path: Path, kind: str) -> None:
    objects = render_objects(file, f"kind={kind}", "results=pvc://work/results")
    with Cluster(objects, tmp_path, secrets={"DLC_JOB_TOKEN": "of this test"}, image=image.ref) as cluster:
        ended = cluster.run()
    assert (ended.state, len(ended.codes)) == (COMPLETED, 1), ended.log
    assert set(ended.codes[0].values()) == {0}, ended.log
    results = tmp_path / "volumes/work/results/digits"
    hosts = {f"dlc-digits-data-group-0-{index}.dlc-digits" for index in range(2)}
    check_results(results / "model", results / "output", hosts)


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Slurm]:
    if reason := can_run("runc"):
        pytest.skip(f"no Slurm can be started: {reason}")
    (tmp_path / "slurm").mkdir()
    with Slurm(tmp_path / "slurm", Path.home() / ".cache/dlc/slurm", NODES) as running:
        yield running


def test_on_slurm(file: Path, image: Image, slurm: Slurm, tmp_path: Path) -> None:
    """The nodes have the image as an OCI bundle, which Slurm starts by runc."""
    folder = tmp_path / "dlc-jobs/digits"
    mounts = {tmp_path: str(tmp_path), slurm.folder / "hosts": "/etc/hosts"}
    bundle = make_bundle(image.ref, tmp_path / "bundle", mounts)
    words = ("submit", str(file), "--to", "slurm", "--wait", "--name", "digits", "--output", str(folder))
    options = ("--with", "container=oci", "--with", f"bundle={bundle}")
    settings = {**CALM, "DLC_CACHE_DIR": str(tmp_path / "cache")}
    done = slurm.command(sys.executable, "-P", "-m", "dlc", *words, *options, env=settings, seconds=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    check_results(folder / "model", folder / "output", {"n1", "n2"})


def test_on_machines_of_sagemaker(
    file: Path, image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """moto keeps the account: the image's tags and digest, the uploaded code, the request, which hosts are made of.

    What `dlc push` would push is there, under its tags.
    """
    with serving_aws(find_bridge()) as server:
        account = open_account(server, tmp_path / "cache", monkeypatch)
        assert run(["push", image.variant.id, "--to", "ecr", "--dry-run", "--json"]) == 0
        (pushed,) = json.loads(capsys.readouterr().out)
        push_image(pushed["repository"], *pushed["tags"])
        options = [f"role={ROLE}", *(f"instance_types.{group}={kind}" for group, kind in TYPES.items())]
        words = ["submit", str(file), "--to", "sagemaker", "--name", "digits"]
        assert run([*words, *(word for option in options for word in ("--with", option))]) == 0
        (request,) = account.requests
        with make_hosts(image, tmp_path / "hosts", request, server) as job:
            codes = job.wait(SECONDS)
            assert codes == dict.fromkeys(("algo-1", "algo-2", "algo-3"), 0)
            account.print_lines("digits", "algo-3", job.log("algo-3").splitlines())
            check_results(job.opt_ml("algo-3") / "model", job.opt_ml("algo-3") / "output/data", {"algo-1", "algo-2"})
        account.end("digits", "Completed")
        capsys.readouterr()
        assert run(["logs", "digits", "-f"]) == 0
        assert "done: loss=" in capsys.readouterr().out
