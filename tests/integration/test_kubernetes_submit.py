"""A job's file as pods: the containers of its document, with its own arguments, variables, volumes and names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.images import Image
from harness.job import SHORT_HEARTBEAT
from harness.pods import COMPLETED, FAILED, Cluster, render_objects

pytestmark = [pytest.mark.integration, pytest.mark.long]
in_pytorch = pytest.mark.when(framework="pytorch", version=">=2.0")

# A host that is told to end saves, and the next start goes on from there. Until it has said so it could not save.
SAVES = """
import os, pathlib, signal, sys, time
saved = pathlib.Path("/opt/ml/checkpoints", os.environ["SM_CURRENT_HOST"])
def save(*_):
    saved.write_text("half")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
if saved.exists():
    print("goes on from", saved.read_text())
    pathlib.Path(os.environ["SM_MODEL_DIR"], os.environ["SM_CURRENT_HOST"]).write_text("whole")
    sys.exit(0)
print("trains", flush=True)
time.sleep(600)
"""
# The second host of the data group fails; the others would run for ever.
FAILS = """
import os, sys, time
if os.environ["SM_CURRENT_HOST"].startswith("dlc-digits-data-group-0-1"):
    sys.exit("no such picture")
time.sleep(600)
"""
SCRIPTS = Path(__file__).parent / "scripts"
STOPPED_AS_A_USER = "hosts: 2\ncheckpoints: pvc://work/saved\ngrace: 60\nuser: 1000:100\n"


def write_job(folder: Path, image: Image, script: str, more: str) -> Path:
    (folder / "train.py").write_text(script)
    (folder / "job.yml").write_text(f"image: {image.ref}\nscript: train.py\n{more}")
    return folder / "job.yml"


@in_pytorch
def test_a_script_that_fails_ends_all_pods_and_starts_none_again(image: Image, tmp_path: Path) -> None:
    groups = "groups: {data_group: {hosts: 2}, dnn_group: {hosts: 1}}\n"
    objects = render_objects(write_job(tmp_path, image, FAILS, groups))
    with Cluster(objects, tmp_path, secrets={"DLC_JOB_TOKEN": "of this test"}) as cluster:
        ended = cluster.run()
    assert (ended.state, len(ended.codes)) == (FAILED, 1), ended.log
    assert set(ended.codes[0].values()) == {1}, ended.log
    assert "no such picture" in ended.log


@in_pytorch
def test_a_job_that_is_stopped_saves_on_every_host(image: Image, tmp_path: Path) -> None:
    objects = render_objects(write_job(tmp_path, image, SAVES, STOPPED_AS_A_USER))
    with Cluster(objects, tmp_path, secrets={"DLC_JOB_TOKEN": "of this test"}) as cluster:
        cluster.start()
        cluster.wait_for("trains", times=2)
        codes = cluster.stop()
        assert set(codes.values()) == {143}, cluster.log()
    saved = sorted(path.name for path in (tmp_path / "volumes/work/saved").iterdir())
    assert saved == ["dlc-digits-node-0-0.dlc-digits", "dlc-digits-node-0-1.dlc-digits"]


@in_pytorch
def test_a_drained_node_starts_the_job_again_and_it_goes_on(image: Image, tmp_path: Path) -> None:
    more = "hosts: 2\ncheckpoints: pvc://work/saved\ngrace: 60\n"
    objects = render_objects(write_job(tmp_path, image, SAVES, more), "results=pvc://work/results")
    with Cluster(objects, tmp_path, secrets={"DLC_JOB_TOKEN": "of this test"}) as cluster:
        cluster.start()
        cluster.wait_for("trains", times=2)
        cluster.drain("dlc-digits-node-0-1")
        ended = cluster.wait()
    assert (ended.state, len(ended.codes)) == (COMPLETED, 2), ended.log
    assert set(ended.codes[0].values()) == {143}, ended.log
    assert ended.log.count("goes on from half") == 2
    assert len(list((tmp_path / "volumes/work/results/digits/model").iterdir())) == 2


@in_pytorch
def test_after_a_spot_notice_to_one_group_all_go_on_from_the_saved_step(image: Image, tmp_path: Path) -> None:
    """The node of a data host is taken away: its pod is told a grace before, and the Job counts a disruption."""
    more = "groups: {data_group: {hosts: 2}, dnn_group: {hosts: 1}}\ncheckpoints: pvc://work/saved\ngrace: 60\n"
    script = (SCRIPTS / "resume_by_steps.py").read_text()
    objects = render_objects(write_job(tmp_path, image, script, more), "results=pvc://work/results")
    pods = ("dlc-digits-data-group-0-0", "dlc-digits-data-group-0-1", "dlc-digits-dnn-group-0-0")
    hosts = [f"{pod}.dlc-digits" for pod in pods]
    with Cluster(objects, tmp_path, secrets={"DLC_JOB_TOKEN": "of this test"}) as cluster:
        cluster.start()
        for host in hosts:
            cluster.wait_for(f"{host} trains")
        cluster.drain(pods[1])
        ended = cluster.wait()
    assert (ended.state, len(ended.codes)) == (COMPLETED, 2), ended.log
    assert set(ended.codes[0].values()) == {143}, ended.log
    model = tmp_path / "volumes/work/results/digits/model"
    assert sorted(path.name for path in model.iterdir()) == hosts
    for path in model.iterdir():
        begun, last = json.loads(path.read_text())
        assert begun > 0
        assert last == begun + 5


@in_pytorch
def test_a_lost_node_starts_the_job_again(image: Image, tmp_path: Path) -> None:
    more = f"hosts: 2\ncheckpoints: pvc://work/saved\nenvironment: {json.dumps(SHORT_HEARTBEAT)}\n"
    objects = render_objects(write_job(tmp_path, image, SAVES, more))
    with Cluster(objects, tmp_path, secrets={"DLC_JOB_TOKEN": "of this test"}) as cluster:
        cluster.start()
        cluster.wait_for("trains", times=2)
        cluster.lose("dlc-digits-node-0-1")
        # What the lost host would have saved.
        (tmp_path / "volumes/work/saved/dlc-digits-node-0-1.dlc-digits").write_text("half")
        ended = cluster.wait()
    assert (ended.state, len(ended.codes)) == (COMPLETED, 2), ended.log
    assert ended.codes[0] == {"dlc-digits-node-0-0": 69, "dlc-digits-node-0-1": 137}, ended.log


@in_pytorch
def test_a_setting_that_is_wrong_starts_nothing_again(image: Image, tmp_path: Path) -> None:
    objects = render_objects(write_job(tmp_path, image, "print('trained')", "environment: {DLC_PREFLIGHT: maybe}\n"))
    with Cluster(objects, tmp_path, secrets={"DLC_JOB_TOKEN": "of this test"}) as cluster:
        ended = cluster.run()
    assert (ended.state, ended.codes) == (FAILED, [{"dlc-digits-node-0-0": 78}]), ended.log
