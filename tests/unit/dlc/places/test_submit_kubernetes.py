"""A job as objects of a cluster: the page of the docs, what pods are given, and what a cluster cannot do."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from dlc.core.errors import SpecError, UsageError
from dlc.job.job_file import read_job_file
from dlc.job.job_spec import JobSpec
from dlc.places import kubernetes
from dlc.places.kubernetes.options import OPTIONS
from dlc.places.kubernetes.source import MOST_BYTES, pack_code
from dlc.places.place import load_place, read_place_options
from harness.cluster_rules import find_job_set, find_mistakes
from harness.job_spec import group_of, spec_of

ROOT = Path(__file__).parents[4]
JOB_FILE = ROOT / "examples/heterogeneous/pytorch/job.yml"
IMAGE = "registry.example/dlc/pytorch:2.13-training-cpu-py311"
GOLDEN = {kind: ROOT / f"docs/clusters/{kind}.yml" for kind in ("jobset", "trainjob")}
# In place of the archive, whose bytes are those of the host's zlib.
PACKED = "..."
TRAINING_GROUP = {"sagemaker_distribution_instance_groups": '["dnn_group"]'}


@pytest.fixture
def code(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print('trained')\n")
    return tmp_path / "train.py"


def make_job(code: Path, **changes: Any) -> JobSpec:
    plain = {"image": IMAGE, "groups": [group_of("homogeneousCluster", 2)], "hyperparameters": {"lr": "0.1"}}
    return spec_of(code, **{**plain, **changes})


def two_groups(code: Path, **changes: Any) -> JobSpec:
    groups = (group_of("data_group", 2), group_of("dnn_group", 1))
    return make_job(code, **{"groups": groups, "hyperparameters": TRAINING_GROUP, **changes})


def render(job: JobSpec, **options: Any) -> list[dict[str, Any]]:
    chosen = OPTIONS(**options)
    assert kubernetes.refuse_job(job, chosen) == []
    found: list[dict[str, Any]] = kubernetes.render_job(job, chosen).value
    return found


def refused(job: JobSpec, **options: Any) -> str:
    """The only refusal."""
    (found,) = kubernetes.refuse_job(job, OPTIONS(**options))
    return f"{'.'.join(found.keys)}: expected {found.expected}, found {found.found}; {found.hint}"


def pods(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The specifications of the groups' pods."""
    spec = next(found for each in objects if (found := find_job_set(each)))
    return [job["template"]["spec"]["template"]["spec"] for job in spec["replicatedJobs"]]


def variables(pod: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}


def mounts(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["mountPath"]: each for each in pod["containers"][0]["volumeMounts"]}


@pytest.mark.parametrize("kind", GOLDEN)
def test_the_example_is_the_document_of_the_docs(kind: str) -> None:
    file = read_job_file(JOB_FILE)
    place = load_place("kubernetes")
    options = read_place_options(place, "kubernetes", file.node, [f"kind={kind}", "queue=training"])
    job = file.spec.place("digits", Path("/nowhere"), lambda image: IMAGE)
    assert place.refuse_job(job, options) == []
    document = place.render_job(job, options)
    objects = list(yaml.safe_load_all(document.text))
    assert objects == document.value
    assert find_mistakes(objects) == []
    objects[1]["binaryData"]["source.tar.gz"] = PACKED
    assert objects == list(yaml.safe_load_all(GOLDEN[kind].read_text()))


@pytest.mark.parametrize("kind", GOLDEN)
def test_every_option_makes_objects_that_a_cluster_takes(code: Path, kind: str) -> None:
    groups = (
        group_of("data", 2, cpus="1.5", memory="1.5g"),
        group_of("dnn", 3, program="dnn.py", instance_type="ml.p4d.24xlarge"),
        group_of("aside", 1, gpus="2"),
    )
    job = make_job(
        code, groups=groups, channels={"training": "pvc://data/sets/a", "validation": "pvc://data"},
        checkpoints="pvc://work/checkpoints", secrets=("HF_TOKEN",), user="1000:100",
        arguments=("--name", "$(HOME) $$"), environment={"DLC_TERMINATION_GRACE": "90", "PRICE": "$5"}, grace=90,
    )  # fmt: skip
    options = {
        "kind": kind, "namespace": "ml", "queue": "training", "retries": "0", "results": "pvc://work/results",
        "source": "pvc://work/code", "service_account": "trainer", "pull_secret": "registry", "pull_policy": "Always",
        "node_selector": {"pool": "gpu"}, "tolerations": ("nvidia.com/gpu",),
    }  # fmt: skip
    assert find_mistakes(render(job, **options)) == []


def test_a_container_has_the_images_own_entry_point(code: Path) -> None:
    (pod,) = pods(render(make_job(code, arguments=("--epochs", "3"))))
    assert pod["containers"][0]["args"] == ["train", "--epochs", "3"]
    assert "command" not in pod["containers"][0]


def test_the_launcher_is_told_how_many_pods_there_are(code: Path) -> None:
    (pod,) = pods(render(make_job(code)))
    assert variables(pod)["DLC_NUM_HOSTS"] == "2"
    for group in pods(render(two_groups(code))):
        assert variables(group)["DLC_GROUPS"] == "data_group=2;dnn_group=1"
        assert variables(group)["DLC_STOPPED_EXIT_CODE"] == "143"


def test_kubernetes_replaces_no_dollar_of_the_users_words(code: Path) -> None:
    environment = {"DLC_TERMINATION_GRACE": "30", "FORM": "$(date) costs $5 or $$"}
    (pod,) = pods(render(make_job(code, environment=environment, arguments=("$(HOME)",))))
    assert variables(pod)["FORM"] == "$$(date) costs $$5 or $$$$"
    assert pod["containers"][0]["args"] == ["train", "$$(HOME)"]


def test_only_the_training_group_decides_that_the_job_is_done(code: Path) -> None:
    *_, job_set = render(two_groups(code))
    assert job_set["spec"]["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["dnn-group"]}
    *_, job_set = render(two_groups(code, hyperparameters={}))
    assert job_set["spec"]["successPolicy"] == {"operator": "All"}


@pytest.mark.parametrize(
    ("stated", "targets"),
    [('["dnn_group", "aside"]', ["dnn-group"]), ("dnn_group", ["dnn-group"]), ('["aside"]', None), ("7", None)],
)
def test_groups_that_are_stated_in_other_words_are_found_or_all_groups_count(
    code: Path, stated: str, targets: list[str] | None
) -> None:
    job = two_groups(code, hyperparameters={"sagemaker_distribution_instance_groups": stated})
    *_, job_set = render(job)
    assert job_set["spec"]["successPolicy"].get("targetReplicatedJobs") == targets


def test_the_launchers_codes_say_what_is_started_again(code: Path) -> None:
    *_, job_set = render(make_job(code), retries="5")
    rules = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["podFailurePolicy"]["rules"]
    assert [(rule["action"], rule.get("onExitCodes")) for rule in rules] == [
        ("Count", None),
        ("Count", {"operator": "In", "values": [69, 143]}),
        ("FailJob", {"operator": "NotIn", "values": [69, 143]}),
    ]
    policy = job_set["spec"]["failurePolicy"]
    assert policy["maxRestarts"] == 5
    assert policy["rules"][0]["action"] == "FailJobSet"


def test_machines_of_the_catalogue_say_what_pods_ask_for(code: Path) -> None:
    groups = (
        group_of("data", 2, instance_type="ml.c5.4xlarge"),
        group_of("dnn", 1, instance_type="p4d.24xlarge"),
    )
    data, dnn = pods(render(make_job(code, groups=groups)))
    assert data["containers"][0]["resources"] == {"requests": {"cpu": "14400m", "memory": "27852Mi"}}
    assert dnn["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "4"}
    terms = dnn["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"][0]["values"] == ["p4d.24xlarge", "ml.p4d.24xlarge"]
    (alone,) = pods(render(make_job(code, groups=(group_of("dnn", 1, instance_type="trn1.32xlarge"),))))
    assert alone["containers"][0]["resources"]["limits"] == {"aws.amazon.com/neuron": "16"}
    _, dnn = pods(render(make_job(code, groups=groups), efa="no"))
    assert dnn["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "8"}


def test_what_the_job_states_is_a_limit(code: Path) -> None:
    group = group_of("a", 1, cpus="0.5", memory="512m", gpus="2", instance_type="ml.p4d.24xlarge")
    (pod,) = pods(render(make_job(code, groups=(group,))))
    found = pod["containers"][0]["resources"]
    assert found["limits"] == {"cpu": "0.5", "memory": "512Mi", "nvidia.com/gpu": "2"}
    assert found["requests"] == found["limits"]


def test_all_gpus_are_those_of_the_machine_and_one_interface_is_the_rule(code: Path) -> None:
    group = group_of("dnn", 2, gpus="all", memory="1000000001", instance_type="g5.8xlarge")
    (pod,) = pods(render(make_job(code, groups=(group,))))
    assert pod["containers"][0]["resources"]["limits"] == {
        "memory": "1000000001", "nvidia.com/gpu": "1", "vpc.amazonaws.com/efa": "1",
    }  # fmt: skip


def test_a_machine_that_the_catalogue_lacks_is_a_label_of_nodes_and_no_amount(code: Path) -> None:
    (pod,) = pods(render(make_job(code, groups=(group_of("dnn", 1, instance_type="ml.x9.huge"),))))
    assert "resources" not in pod["containers"][0]
    assert "nodeAffinity" in pod["affinity"]


def test_folders_of_one_claim_are_one_volume(code: Path) -> None:
    channels = {"training": "pvc://work/data", "validation": "pvc://other"}
    (pod,) = pods(render(make_job(code, channels=channels, checkpoints="pvc://work/ck"), results="pvc://work/out"))
    claims = [each["persistentVolumeClaim"]["claimName"] for each in pod["volumes"] if "persistentVolumeClaim" in each]
    assert claims == ["work", "other"]
    found = mounts(pod)
    assert found["/opt/ml/input/data/training"] == {
        "name": "claim-0", "mountPath": "/opt/ml/input/data/training", "subPath": "data", "readOnly": True,
    }  # fmt: skip
    assert found["/opt/ml/checkpoints"]["subPath"] == "ck"
    assert found["/opt/ml/model"]["subPath"] == "out/digits/model"
    assert found["/opt/ml/output/data"]["subPath"] == "out/digits/output"


def test_the_code_is_an_archive_that_the_launcher_unpacks(tmp_path: Path) -> None:
    (tmp_path / "lib/__pycache__").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    for name in ("train.py", "lib/a.py", "lib/__pycache__/a.pyc", ".git/config"):
        (tmp_path / name).write_text(name)
    _, config, _ = render(make_job(tmp_path))
    packed = base64.b64decode(config["binaryData"]["source.tar.gz"])
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert archive.getnames() == ["lib/a.py", "train.py"]
    parameters = json.loads(config["data"]["hyperparameters.json"])
    assert parameters["sagemaker_submit_directory"] == '"/opt/ml/input/config/source.tar.gz"'
    pack_code.cache_clear()
    assert pack_code((tmp_path,)) == packed


def test_code_that_is_in_a_volume_or_in_s3_is_not_packed(code: Path) -> None:
    _, config, job_set = render(make_job(code), source="pvc://work/code")
    assert "binaryData" not in config
    assert "sagemaker_submit_directory" not in config["data"]["hyperparameters.json"]
    assert mounts(pods([job_set])[0])["/opt/ml/code"]["readOnly"]
    _, config, _ = render(make_job(code), source="s3://bucket/code.tar.gz")
    parameters = json.loads(config["data"]["hyperparameters.json"])
    assert parameters["sagemaker_submit_directory"] == '"s3://bucket/code.tar.gz"'


def test_a_large_source_is_refused_with_the_ways_that_are_left(tmp_path: Path) -> None:
    import random

    (tmp_path / "train.py").write_bytes(random.Random(1).randbytes(MOST_BYTES + 1))
    said = refused(make_job(tmp_path))
    assert said.startswith("source: expected code of at most 900 KiB in a ConfigMap")
    assert "pvc://CLAIM/FOLDER, s3://BUCKET/code.tar.gz" in said
    assert not kubernetes.refuse_job(make_job(tmp_path), OPTIONS(source="pvc://work/code"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "My_Job"}, "name: expected small letters, digits and -, found My_Job"),
        ({"name": "a" * 60}, "pods' names of at most 63 characters"),
        ({"image": "dlc/pytorch:2.13"}, "image: expected an image with its registry"),
        ({"channels": {"training": "/data"}}, "channels.training: expected a volume of the cluster"),
        ({"channels": {"training": "s3://bucket/data"}}, "channels.training: expected a volume of the cluster"),
        ({"checkpoints": "/work"}, "checkpoints: expected a volume of the cluster"),
        ({"checkpoints": "pvc://work/../other"}, "checkpoints: expected a folder in the volume, without .."),
        ({"channels": {"training": "pvc://work/a/.."}}, "channels.training: expected a folder in the volume"),
        ({"environment": {"SLURM_JOB_ID": "7"}}, "environment.SLURM_JOB_ID: expected hosts that the cluster names"),
        ({"user": "me"}, "user: expected numbers"),
        ({"environment": {"DLC_HOSTS": "a,b"}}, "environment.DLC_HOSTS: expected hosts that the cluster names"),
        ({"environment": {"DLC_TERMINATION_GRACE": "60"}}, "expected the job's grace, 30, found 60"),
        ({"hyperparameters": {"long": "x" * 70_000}}, "hyperparameters: expected at most 65536 characters"),
        ({"groups": (group_of("a", 1, gpus="all"),)}, "groups.a.gpus: expected a number of GPUs"),
        ({"groups": (group_of("a", 1, gpus='"device=0,1"'),)}, "the cluster chooses which, found device=0,1"),
        ({"groups": (group_of("a", 1, cpus="17", instance_type="ml.c5.4xlarge"),)}, "groups.a.cpus"),
        ({"groups": (group_of("a", 1, memory="33g", instance_type="c5.4xlarge"),)}, "what c5.4xlarge has, 32g"),
        ({"groups": (group_of("a", 1, gpus="1", instance_type="c5.4xlarge"),)}, "groups.a.gpus"),
        ({"groups": (group_of("a_", 1),)}, "begins and ends with a letter or a digit, found a_"),
    ],
)  # fmt: skip
def test_what_a_cluster_cannot_do_is_refused_by_its_name(code: Path, changes: dict[str, Any], said: str) -> None:
    assert said in refused(make_job(code, **changes))


@pytest.mark.parametrize("kind", ["jobset", "trainjob"])
def test_a_time_limit_is_each_groups_and_is_no_reason_to_start_again(code: Path, kind: str) -> None:
    objects = render(make_job(code), kind=kind, max_run_seconds="3600")
    assert find_mistakes(objects) == []
    spec = next(found for each in objects if (found := find_job_set(each)))
    assert [job["template"]["spec"]["activeDeadlineSeconds"] for job in spec["replicatedJobs"]] == [3600]
    [rule] = spec["failurePolicy"]["rules"]
    assert (rule["action"], rule["onJobFailureReasons"]) == ("FailJobSet", ["PodFailurePolicy", "DeadlineExceeded"])
    assert "activeDeadlineSeconds" not in json.dumps(render(make_job(code), kind=kind))


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("results=pvc://work/../x", "a folder in the volume, without .."),
        ("source=pvc://work/a/../../x", "a folder in the volume, without .."),
        ("tolerations=[a b]", "the key of a taint, such as nvidia.com/gpu"),
        ("tolerations=['']", "the key of a taint, such as nvidia.com/gpu"),
        ("tolerations=[gpu=yes]", "the key of a taint, such as nvidia.com/gpu"),
        ("node_selector={disk type: ssd}", "the key of a label"),
        ("node_selector={disk: s s d}", "the value of a label"),
        ("node_selector={Example.com/disk: ssd}", "the key of a label"),
        ("max_run_seconds=0", "a number of seconds"),
        ("max_run_seconds=1h", "a number of seconds"),
    ],
)
def test_an_option_that_the_server_would_refuse_is_refused_by_a_dry_run(word: str, said: str) -> None:
    with pytest.raises((UsageError, SpecError), match=said):
        read_place_options(load_place("kubernetes"), "kubernetes", None, [word])


def test_taints_and_labels_that_clusters_have_are_taken() -> None:
    words = ["tolerations=[nvidia.com/gpu, dedicated]", "node_selector={node.kubernetes.io/x: A_b.c-1, disk: ''}"]
    read = read_place_options(load_place("kubernetes"), "kubernetes", None, words)
    assert read.tolerations == ("nvidia.com/gpu", "dedicated")


def test_amounts_of_a_job_without_groups_stand_below_its_resources(code: Path) -> None:
    group = group_of("homogeneousCluster", 1, gpus="9", instance_type="ml.p4d.24xlarge")
    assert refused(make_job(code, groups=(group,))).startswith("resources.gpus: expected at most what ml.p4d.24xlarge")


def test_code_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert refused(make_job(tmp_path / "train.py")).startswith("source: expected files that can be read, found ")


def test_two_groups_that_kubernetes_cannot_tell_apart_are_refused(code: Path) -> None:
    groups = (group_of("a_b", 1), group_of("a.b", 1))
    found = kubernetes.refuse_job(make_job(code, groups=groups), OPTIONS())
    assert [refusal.keys for refusal in found] == [("groups", "a_b"), ("groups", "a.b")]


def test_nodes_may_have_the_image_without_a_registry(code: Path) -> None:
    assert not kubernetes.refuse_job(make_job(code, image="dlc/pytorch:2.13"), OPTIONS(pull_policy="Never"))
