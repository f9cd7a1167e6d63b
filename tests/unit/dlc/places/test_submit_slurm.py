"""The sbatch file of a job: as it is in the docs, for each kind of container; and what Slurm cannot do."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from dlc.core.errors import SpecError, UsageError
from dlc.job.job_file import read_job_file
from dlc.job.job_spec import JobSpec
from dlc.places import slurm
from dlc.places.place import load_place, read_place_options
from dlc.places.slurm.options import OPTIONS
from harness.job_spec import group_of, spec_of

ROOT = Path(__file__).parents[4]
JOB_FILE = ROOT / "examples/heterogeneous/pytorch/job.yml"
GOLDEN = ROOT / "docs/clusters/job.sbatch"


def job(**changes: Any) -> JobSpec:
    plain: dict[str, Any] = {
        "groups": [group_of("homogeneousCluster", 2)], "hyperparameters": {"lr": "0.1"},
        "channels": {"training": "/shared/data"}, "environment": {"GREETING": "it's"}, "secrets": ["HF_TOKEN"],
        "folder": Path("/shared/dlc-jobs/digits"),
    }  # fmt: skip
    return spec_of(Path("/home/me/train.py"), **{**plain, **changes})


def lines(job: JobSpec, **options: Any) -> list[str]:
    return slurm.render_job(job, OPTIONS(**options)).text.splitlines()


def test_the_example_is_the_sbatch_file_of_the_docs() -> None:
    file = read_job_file(JOB_FILE)
    place = load_place("slurm")
    options = read_place_options(place, "slurm", file.node, ["partition=cpu", "groups.dnn_group.partition=gpu"])
    folder = Path("/shared/dlc-jobs/digits")
    submitted = file.spec.place("digits", folder, lambda image: f"registry.example/{image}")
    assert place.refuse_job(submitted, options) == []
    assert place.render_job(submitted, options).text == GOLDEN.read_text()


def test_directives_stand_before_the_first_command_and_each_component_has_its_own() -> None:
    groups = (group_of("data", 2, cpus="0.5"), group_of("dnn", 1, cpus="8", memory="1.5g", gpus="4"))
    found = lines(job(groups=groups), time="2:00:00", account="me", extra=("--reservation=night",))
    directives = [line.removeprefix("#SBATCH ") for line in found if line.startswith("#SBATCH")]
    assert found[1 : len(directives) + 1] == [f"#SBATCH {word}" for word in directives]
    first, second = " ".join(directives).split(" hetjob ")
    common = ("--account=me", "--time=2:00:00", "--signal=TERM@30", "--reservation=night")
    assert {"--nodes=2", "--ntasks=2", "--cpus-per-task=1", *common} <= set(first.split())
    assert {"--nodes=1", "--cpus-per-task=8", "--mem=1536M", "--gpus-per-node=4", *common} <= set(second.split())


def test_hosts_know_their_groups_by_the_jobs_names() -> None:
    found = lines(job(groups=(group_of("data", 2), group_of("dnn", 1))))
    assert 'export DLC_GROUPS="data=$SLURM_JOB_NODELIST_HET_GROUP_0;dnn=$SLURM_JOB_NODELIST_HET_GROUP_1"' in found
    assert not [line for line in lines(job()) if "DLC_GROUPS" in line]


def test_no_secret_is_in_the_file_and_text_is_quoted() -> None:
    found = lines(job())
    assert not [line for line in found if "TOKEN" in line]
    assert """export GREETING='it'"'"'s'""" in found


def test_pyxis_gets_the_image_and_the_mounts() -> None:
    (step,) = [line for line in lines(job()) if line.startswith("srun")]
    assert "--container-image='registry.example#dlc/pytorch:2.13'" in step
    assert "--container-mounts=/shared/dlc-jobs/digits:/shared/dlc-jobs/digits,/shared/data:/shared/data:ro" in step


def test_components_in_oci_containers_have_a_step_each() -> None:
    """Slurm 22.05 starts the last component of a step in its container, and the others nowhere."""
    groups = (group_of("data", 2, cpus="1"), group_of("dnn", 1, cpus="2"))
    steps = [line for line in lines(job(groups=groups), container="oci", bundle="/b") if line.startswith("srun")]
    assert [line.split()[1] for line in steps] == ["--het-group=0", "--het-group=1"]
    assert all(" --container=/b /bin/sh " in line and " : " not in line for line in steps)
    (host,) = [line for line in lines(job(groups=groups), container="oci", bundle="/b") if line.startswith("host=")]
    assert "export SLURM_JOB_ID=$SLURM_JOB_ID_HET_GROUP_0 SLURM_STEP_ID=0; SAGEMAKER_BASE_DIR=" in host


def test_an_oci_container_does_not_take_the_name_of_the_batch_scripts_node() -> None:
    found = lines(job(), container="oci", bundle="/b")
    (host,) = [line for line in found if line.startswith("host=")]
    assert "export SLURMD_NODENAME=${SLURMD_NODENAME:-$(uname -n)}; SAGEMAKER_BASE_DIR=" in host
    assert found.index("unset SLURMD_NODENAME") < found.index(host)
    assert "unset SLURMD_NODENAME" not in lines(job())


def test_apptainer_mounts_the_hosts_folder_at_its_place() -> None:
    (host,) = [line for line in lines(job(image="/shared/x.sif"), container="apptainer") if line.startswith("host=")]
    assert '--bind "$0/$SLURMD_NODENAME:/opt/ml"' in host
    assert "--bind /shared/data:/opt/ml/input/data/training:ro /shared/x.sif /usr/bin/tini" in host
    assert "SAGEMAKER_BASE_DIR" not in host


def test_a_job_that_may_start_again_has_checkpoints_that_all_nodes_see() -> None:
    found = lines(job(), requeue="yes", time="60")
    assert "#SBATCH --requeue" in found
    assert "#SBATCH --signal=B:USR1@30" in found
    assert '  ln -sfn /shared/dlc-jobs/digits/checkpoints "$folder/hosts/$host/checkpoints"' in found
    assert not [line for line in lines(job()) if "checkpoints" in line]


@pytest.mark.parametrize("options", [{}, {"time": "60"}, {"requeue": "yes"}], ids=["plain", "time", "requeue"])
def test_a_stopped_job_is_no_success_so_jobs_that_follow_it_do_not_begin(options: dict[str, Any]) -> None:
    assert "export DLC_STOPPED_EXIT_CODE=143" in lines(job(), **options)


def test_a_jobs_own_code_after_a_stop_stays() -> None:
    found = lines(job(environment={"DLC_STOPPED_EXIT_CODE": "7"}), requeue="yes")
    assert [line for line in found if "DLC_STOPPED_EXIT_CODE" in line] == ["export DLC_STOPPED_EXIT_CODE=7"]


@pytest.mark.parametrize(
    ("reference", "named"),
    [
        ("dlc/pytorch:2.13", "dlc/pytorch:2.13"),
        ("localhost/dlc/pytorch:2.13", "localhost#dlc/pytorch:2.13"),
        ("host:5000/pytorch", "host:5000#pytorch"),
        ("pytorch", "pytorch"),
        ("/shared/x.sqsh", "/shared/x.sqsh"),
        ("./a.b/x", "./a.b/x"),
        ("a.b/x.sqsh", "a.b/x.sqsh"),
    ],
)
def test_pyxis_tells_a_registry_from_a_folder_by_its_dots_and_its_port(reference: str, named: str) -> None:
    (step,) = [line for line in lines(job(image=reference)) if line.startswith("srun")]
    assert f"--container-image={shlex.quote(named)} " in step


@pytest.mark.parametrize(
    ("reference", "named"),
    [
        ("registry.example/dlc/pytorch:2.13", "docker://registry.example/dlc/pytorch:2.13"),
        ("library://dlc/pytorch", "library://dlc/pytorch"),
        ("x.sif", "x.sif"),
        ("./x", "./x"),
    ],
)
def test_apptainer_takes_an_image_of_a_registry_or_a_file(reference: str, named: str) -> None:
    groups = (group_of("a", 1), group_of("b", 1, gpus="1"))
    found = lines(job(image=reference, groups=groups, checkpoints="/shared/kept"), container="apptainer")
    (host,) = [line for line in found if line.startswith("host=")]
    assert f" {named} /usr/bin/tini " in host
    assert "exec apptainer exec --no-home --writable-tmpfs --nv " in host
    assert "--bind /shared/kept:/opt/ml/checkpoints " in host
    assert not [line for line in found if "--container-" in line or "ln -sfn" in line]


def test_pyxis_mounts_checkpoints_that_are_not_in_the_jobs_folder() -> None:
    for checkpoints, more in (("/shared/kept", ",/shared/kept:/shared/kept"), ("/shared/dlc-jobs/digits/kept", "")):
        (step,) = [line for line in lines(job(checkpoints=checkpoints)) if line.startswith("srun")]
        assert f":/shared/data:ro{more} " in step


def test_a_bundle_is_the_container_and_without_one_there_is_no_word_of_it() -> None:
    (step,) = [line for line in lines(job(), container="oci", bundle="/shared/b") if line.startswith("srun")]
    assert " --container=/shared/b " in step
    assert "container" not in "".join(line for line in lines(job(), container="none") if line.startswith("srun"))


def test_nodes_of_ones_own_and_a_job_without_a_limit_that_could_be_warned_of() -> None:
    assert "#SBATCH --exclusive" in lines(job(), exclusive="yes")
    found = lines(job(), time="UNLIMITED")
    assert not [line for line in found if "--signal" in line or "--exclusive" in line]


def test_a_groups_options_stand_over_the_jobs_and_both_more_options_are_given() -> None:
    groups = (group_of("data", 2), group_of("dnn", 1))
    own = {"dnn": {"constraint": "h100", "nodelist": "n[1-2]", "extra": ("--licenses=a",)}}
    found = lines(job(groups=groups), constraint="x86", extra=("--reservation=night",), groups=own)
    first, second = " ".join(line for line in found if line.startswith("#SBATCH")).split("#SBATCH hetjob")
    assert ("--constraint=x86" in first, "--nodelist" in first, "--licenses" in first) == (True, False, False)
    for word in ("--constraint=h100", "--nodelist=n[1-2]", "--reservation=night", "--licenses=a"):
        assert f"#SBATCH {word}" in second


@pytest.mark.parametrize(
    ("changes", "options", "keys"),
    [
        ({"channels": {"training": "s3://bucket/data"}}, {}, ("channels", "training")),
        ({"channels": {"training": "/a:b"}}, {}, ("channels", "training")),
        ({"checkpoints": "s3://bucket/saved"}, {}, ("checkpoints",)),
        ({"folder": Path("/home/my jobs/x")}, {}, ("places", "slurm", "folder")),
        ({"user": "1000"}, {}, ("user",)),
        ({"groups": (group_of("a", 1, gpus="all"),)}, {}, ("groups", "a", "gpus")),
        ({"groups": (group_of("a", 1, gpus='"device=0,1"'),)}, {}, ("groups", "a", "gpus")),
        ({}, {"groups": {"homogenous": {}}}, ("places", "slurm", "groups", "homogenous")),
        ({}, {"container": "oci"}, ("places", "slurm", "bundle")),
        ({}, {"bundle": "/shared/bundle"}, ("places", "slurm", "bundle")),
        ({"folder": Path("/home/a#b/x")}, {}, ("places", "slurm", "folder")),
        ({"folder": Path("/home/it's/x")}, {}, ("places", "slurm", "folder")),
        ({"folder": Path('/home/a"b/x')}, {}, ("places", "slurm", "folder")),
        ({"shared_memory": "64g"}, {}, ("shared_memory",)),
        ({"shared_memory": "8g"}, {}, ("shared_memory",)),
        ({"environment": {"DLC_HOSTS": "a,b"}}, {}, ("environment", "DLC_HOSTS")),
        ({"environment": {"SLURM_JOB_NODELIST": "a"}}, {}, ("environment", "SLURM_JOB_NODELIST")),
        ({"secrets": ("DLC_JOB_TOKEN", "DLC_RANK")}, {}, ("environment", "DLC_RANK")),
        ({"environment": {"DLC_TERMINATION_GRACE": "90"}}, {}, ("environment", "DLC_TERMINATION_GRACE")),
        ({"image": "dlc/pytorch:2.13"}, {}, ("image",)),
        ({"image": "dlc/pytorch:2.13"}, {"container": "apptainer"}, ("image",)),
        ({"image": "docker://dlc/pytorch:2.13"}, {"container": "apptainer"}, ("image",)),
    ],
)
def test_what_slurm_cannot_do_is_refused_by_name(
    changes: dict[str, Any], options: dict[str, Any], keys: tuple[str, ...]
) -> None:
    assert [refusal.keys for refusal in slurm.refuse_job(job(**changes), OPTIONS(**options))] == [keys]


@pytest.mark.parametrize("container", ["pyxis", "apptainer"])
@pytest.mark.parametrize("reference", ["/shared/x.sqsh", "./x", "localhost/dlc:1", "host:5000/dlc:1"])
def test_an_image_of_a_registry_or_a_file_of_one_is_taken(reference: str, container: str) -> None:
    assert slurm.refuse_job(job(image=reference), OPTIONS(container=container)) == []


def test_nodes_that_need_no_image_take_any_name_of_one() -> None:
    assert slurm.refuse_job(job(image="dlc/pytorch:2.13"), OPTIONS(container="none")) == []
    assert slurm.refuse_job(job(image="dlc/pytorch:2.13"), OPTIONS(container="oci", bundle="/b")) == []


def test_an_instance_type_is_a_feature_of_the_nodes_and_ones_own_constraint_stands_in_its_place() -> None:
    groups = (group_of("homogeneousCluster", 2, instance_type="ml.p5.48xlarge"),)
    assert "#SBATCH --constraint=p5.48xlarge" in lines(job(groups=groups))
    assert "#SBATCH --constraint=h100" in lines(job(groups=groups), constraint="h100")


@pytest.mark.parametrize(
    "option",
    ["--array=1-4", "--arr=1-4", "--nodes=3", "--nod=3", "--output=/x", "--test-only", "--wrap=true", "--time=5",
     "--signal=KILL@9", "--mem=4g", "--export=NONE", "--het-group=1", "--parsable"],
)  # fmt: skip
def test_an_option_that_would_make_another_job_is_refused_also_if_it_is_shortened(option: str) -> None:
    with pytest.raises(UsageError, match="expected no --"):
        read_place_options(load_place("slurm"), "slurm", None, [f"extra=[{option}]"])


@pytest.mark.parametrize(
    "option",
    ["--reservation=night", "--gpus=4", "--gres=gpu:a100:4", "--mem-per-cpu=2g", "--begin=now", "--licenses=a"],
)
def test_options_of_a_site_are_taken(option: str) -> None:
    read = read_place_options(load_place("slurm"), "slurm", None, [f"extra=['{option}']"])
    assert read.extra == (option,)


def test_a_bundle_that_a_node_lacks_is_named_before_the_step_begins() -> None:
    found = lines(job(), container="oci", bundle="/nope")
    check = found.index("if [ ! -f /nope/config.json ]; then")
    assert check < next(number for number, line in enumerate(found) if line.startswith("srun"))
    assert "if [ ! -f" not in "\n".join(lines(job()))


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("partiton=gpu", "--with partiton: partiton: expected one of account, .*; did you mean 'partition'?"),
        ("partition=a b", "--with partition: partition: expected one word without quotes, .* found 'a b'"),
        ("time=soon", "--with time: time: expected minutes, .* found 'soon'"),
        ("extra=[-x]", r"--with extra: extra\[0\]: expected an option of sbatch such as --reservation=night, .*"),
        ("groups.a.nodes=n1", "--with groups.a.nodes: groups.a.nodes: expected one of constraint, .*"),
        ("folder=here", "--with folder: folder: expected a path from the root, .* found 'here'"),
        ("partition", "--with partition: expected KEY=VALUE"),
    ],
)
def test_an_option_that_is_none_is_named(word: str, said: str) -> None:
    with pytest.raises((UsageError, SpecError), match=said):
        read_place_options(load_place("slurm"), "slurm", None, [word])


def test_a_place_that_is_none_is_named() -> None:
    with pytest.raises(UsageError, match="did you mean 'slurm'"):
        load_place("slrum")


def test_words_of_the_command_line_stand_over_the_file_and_all_mistakes_are_told_at_once() -> None:
    file = read_job_file(JOB_FILE)
    place = load_place("slurm")
    read = read_place_options(place, "slurm", file.node, ["partition=gpu", "extra=[--licenses=a]", "account="])
    assert (read.partition, read.extra, read.account) == ("gpu", ("--licenses=a",), "")
    with pytest.raises(UsageError) as caught:
        read_place_options(place, "slurm", file.node, ["extra=[", "tim=5"])
    assert [line.partition(":")[0] for line in caught.value.message.splitlines()] == ["--with extra", "--with tim"]


def test_a_place_gets_types_of_machines_and_names_of_secrets_and_no_value_of_one(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "job.yml").write_text(
        "image: x\nscript: train.py\nresources: {instance_type: ml.c5.xlarge}\n"
        "groups: {a: {}, b: {instance_type: ml.g5.xlarge}}\n"
        "environment: {DLC_JOB_TOKEN: {from: environment}, HF_TOKEN: {from: environment}, A: b}\n"
    )
    made = read_job_file(tmp_path / "job.yml").spec.place("mine", tmp_path / "out", lambda image: "x:1")
    assert [group.instance_type for group in made.host_groups] == ["ml.c5.xlarge", "ml.g5.xlarge"]
    assert made.secrets == ("DLC_JOB_TOKEN", "HF_TOKEN")
    assert made.variables == {"DLC_TERMINATION_GRACE": "30", "A": "b"}
