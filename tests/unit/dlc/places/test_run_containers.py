"""A job becomes one container per host and their config files, which the launcher reads as a platform's."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from dlc.places.local.containers import explain_as_dict, explain_as_text, make_containers
from dlc.places.local.job import Group, Job
from dlc.places.local.job_folder import make_config, write_folders
from launch.base.paths import Paths
from launch.discovery import resourceconfig
from launch.job import hyperparameters

DATA = Group("data_group", ("algo-1", "algo-2"), program="train_data.py", instance_type="ml.c5.xlarge")
DNN = Group("dnn_group", ("algo-3",), cpus="0.5", memory="2g", gpus="all")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    script = tmp_path / "train.py"
    script.write_text("print('trained')")
    (tmp_path / "digits").mkdir()
    return Job(
        "j1", "dlc/pytorch:1", tmp_path / "results", (DATA, DNN), (script,), program="train.py",
        hyperparameters={"lr": "0.1"}, channels={"training": tmp_path / "digits"}, environment={"A": "b"},
        secrets={"DLC_JOB_TOKEN": "hush"},
    )  # fmt: skip


def after(words: Sequence[str], option: str) -> list[str]:
    """The values of an option."""
    return [value for word, value in pairwise(words) if word == option]


def test_every_host_has_a_container_on_the_jobs_own_network_under_its_own_name(job: Job) -> None:
    found = make_containers(job)
    assert [container.name for container in found] == ["dlc-j1-algo-1", "dlc-j1-algo-2", "dlc-j1-algo-3"]
    for host, container in zip(job.hosts, found, strict=True):
        words = container.words()
        assert after(words, "--network") == ["dlc-j1"]
        assert after(words, "--network-alias") == after(words, "--hostname") == [host]
        assert words[-2:] == ("dlc/pytorch:1", "train")


def test_two_jobs_share_no_name_and_no_label(job: Job) -> None:
    other = replace(job, id="j2")
    pairs = zip(make_containers(job), make_containers(other), strict=True)
    assert all(not {a.name, a.network, *a.labels} & {b.name, b.network, *b.labels} for a, b in pairs)


def test_a_limit_reaches_the_hosts_of_its_group_only(job: Job) -> None:
    data, _, dnn = (container.words() for container in make_containers(job))
    assert [after(dnn, option) for option in ("--cpus", "--memory", "--gpus")] == [["0.5"], ["2g"], ["all"]]
    assert not {"--cpus", "--memory", "--gpus"} & set(data)


def test_the_value_of_a_secret_is_on_no_command_line(job: Job) -> None:
    for container in make_containers(job):
        assert {"A=b", "DLC_JOB_TOKEN"} <= set(after(container.words(), "--env"))
    assert "hush" not in explain_as_text(job) + json.dumps(explain_as_dict(job))


def test_programs_of_groups_are_told_to_every_host(job: Job) -> None:
    for container in make_containers(job):
        assert json.loads(container.environment["DLC_GROUP_PROGRAMS"]) == {"data_group": "train_data.py"}
    alone = replace(job, groups=(DNN,))
    assert "DLC_GROUP_PROGRAMS" not in make_containers(alone)[0].environment


def test_no_host_can_write_to_a_channel(job: Job) -> None:
    mounts = [dict(field.partition("=")[::2] for field in mount.split(",")) for mount in make_containers(job)[0].mounts]
    assert [(mount["target"], "readonly" in mount) for mount in mounts] == [
        ("/opt/ml", False), ("/opt/ml/input/data/training", True),
    ]  # fmt: skip


def test_checkpoints_are_one_folder_for_all_hosts_that_they_can_write_to(job: Job) -> None:
    for container in make_containers(replace(job, checkpoints=Path("/kept"))):
        assert container.mounts[-1] == "type=bind,source=/kept,target=/opt/ml/checkpoints"


def test_hosts_trust_the_authorities_of_the_job_unless_the_user_names_others(job: Job, tmp_path: Path) -> None:
    trusting = replace(job, authorities=tmp_path / "ca.pem", environment={"PIP_CERT": "/mine.pem"})
    for container in make_containers(trusting):
        assert (
            container.mounts[-1] == f"type=bind,source={tmp_path}/ca.pem,target=/etc/ssl/dlc-authorities.pem,readonly"
        )
        assert container.environment["SSL_CERT_FILE"] == "/etc/ssl/dlc-authorities.pem"
        assert container.environment["PIP_CERT"] == "/mine.pem"


def test_a_folder_whose_name_has_commas_colons_and_quotes_is_mounted_as_it_is(job: Job) -> None:
    folder = Path('/a,b:c"d')
    mount = make_containers(replace(job, channels={"training": folder}))[0].mounts[1]
    assert next(csv.reader([mount]))[1] == f"source={folder}"


def test_the_image_is_never_pulled(job: Job) -> None:
    assert after(make_containers(job)[0].words(), "--pull") == ["never"]


def test_the_launcher_reads_the_config_files_as_the_job_means_them(job: Job) -> None:
    write_folders(job)
    for host, group in (("algo-1", DATA), ("algo-3", DNN)):
        paths = Paths(str(job.opt_ml(host)))
        cluster = resourceconfig.discover({}, paths)
        assert cluster is not None
        assert (cluster.current_host, cluster.hosts) == (host, ("algo-1", "algo-2", "algo-3"))
        assert (cluster.current_group, cluster.current_group_hosts) == (group.name, group.hosts)
        assert (cluster.instance_type, cluster.is_heterogeneous) == (group.instance_type, True)
        read = hyperparameters.read_job({}, paths)
        assert (read.program, read.hyperparameters, read.channels) == ("train.py", {"lr": 0.1}, ("training",))


def test_every_host_has_the_keys_of_a_real_jobs_resource_config(job: Job) -> None:
    """As in the platform's own public logs."""
    assert set(make_config(job, "algo-3")["resourceconfig.json"]) == {
        "current_host", "current_instance_type", "current_group_name", "hosts", "instance_groups",
        "network_interface_name",
    }  # fmt: skip


def test_explain_shows_for_every_host_the_command_and_all_config_files(job: Job) -> None:
    text = explain_as_text(job)
    assert "docker network create --label org.dlc.job=j1 dlc-j1" in text
    for container in make_containers(job):
        assert f"--name {container.name} " in text
        for content in make_config(job, container.host).values():
            assert json.dumps(content) in text
    assert not job.folder.exists()
