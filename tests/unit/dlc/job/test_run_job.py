"""dlc run's options become a job, or one error that names the option; nothing is started or written."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dlc.core.errors import SpecError, UsageError
from dlc.job.job_file import read_job_file
from dlc.job.job_spec import JobSpec
from dlc.job.strategies import STRATEGIES
from dlc.job.words import add_flags, read_words
from dlc.places.local.job import Group, Job, make_job


@pytest.fixture(autouse=True)
def in_a_folder_with_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "train_data.py", "other/train.py", "data/digits.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


# The words of a test -> the option that a user types.
OPTIONS = {
    "groups": "--group", "programs": "--program", "hyperparameters": "--hp", "channels": "--channel",
    "environment": "--env", "instance_types": "--instance-type", "shared_memory": "--shm-size",
    "stop_seconds": "--grace", "images": "--group-image",
}  # fmt: skip


def read(script: str = "train.py", **options: Any) -> JobSpec:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    typed = {OPTIONS.get(name, f"--{name}"): said for name, said in options.items() if name != "arguments"}
    pairs = [
        (option, str(word)) for option, said in typed.items() for word in (said if isinstance(said, list) else [said])
    ]
    args = parser.parse_args([f"{option}={word}" for option, word in pairs])
    args.image, args.script, args.arguments = "dlc/x:1", script, options.get("arguments")
    return read_words(args).spec.place("j", Path("/results"), lambda image: image)


def job(environ: Mapping[str, str] | None = None, script: str = "train.py", **options: Any) -> Job:
    return make_job(read(script, **options), environ or {}, "secret")


def test_hosts_without_groups_are_the_platforms_only_group() -> None:
    assert job(hosts=2).groups == (Group("homogeneousCluster", ("algo-1", "algo-2")),)


def test_arguments_go_to_the_launcher_as_the_platform_gives_them() -> None:
    assert job().command == ("train",)
    assert job(arguments=["--any", "arguments", "5", "1"]).command == ("train", "--any", "arguments", "5", "1")


def test_hosts_are_dealt_out_to_the_groups_in_their_order() -> None:
    groups = job(groups=["data_group=2", "dnn_group=1"]).groups
    assert [(group.name, group.hosts) for group in groups] == [
        ("data_group", ("algo-1", "algo-2")), ("dnn_group", ("algo-3",)),
    ]  # fmt: skip


def test_a_group_without_a_number_has_as_many_hosts_as_hosts_says() -> None:
    assert [len(group.hosts) for group in job(hosts=3, groups=["a", "b=1"]).groups] == [3, 1]


@pytest.mark.parametrize(
    ("word", "gpus"),
    [
        ("0", ""), ("10", "10"), ("all", "all"), ("device=0", "device=0"), ("device=0,1", "device=0,1"),
        ('"device=0,1"', "device=0,1"), ("device=GPU-3a23c669", "device=GPU-3a23c669"),
    ],
)  # fmt: skip
def test_gpus_are_named_as_docker_names_them_and_0_asks_for_no_gpu_driver(word: str, gpus: str) -> None:
    (group,) = job(gpus=[word]).groups
    assert group.gpus == gpus


def test_devices_may_be_of_one_group_and_of_a_group_called_device_in_a_file_alone(tmp_path: Path) -> None:
    found = job(groups=["a=1", "device=1"], gpus=["a=device=0,1", "device=all"]).groups
    assert [group.gpus for group in found] == ["device=0,1", "all"]
    with pytest.raises(UsageError, match=r"--gpus: expected another name for the group, .*found device=0 and a group"):
        job(groups=["a=1", "device=1"], gpus=["device=0"])
    (tmp_path / "job.yml").write_text(
        "image: x\nscript: train.py\ngroups: {device: {}, other: {}}\nresources: {gpus: 'device=0'}\n"
    )
    spec = read_job_file(tmp_path / "job.yml").spec
    assert [group.gpus for group in spec.host_groups] == ["device=0"] * 2


def test_0_is_no_limit_as_for_docker() -> None:
    (group,) = job(cpus=["0"], memory=["0"]).groups
    assert (group.cpus, group.memory) == ("", "")


# What `docker create --memory` takes, and how docker writes it at its shortest.
SIZES = [
    ("6m", "6m"), ("512M", "512m"), ("1.5g", "1.5g"), ("4gb", "4g"), ("4GiB", "4g"), ("512MiB", "512m"),
    ("7000000", "7000000"), ("7000000b", "7000000"), ("1t", "1t"), (".5g", "0.5g"),
]  # fmt: skip


@pytest.mark.parametrize(("word", "size"), SIZES)
def test_a_size_is_understood_as_for_docker_and_has_one_spelling(word: str, size: str, tmp_path: Path) -> None:
    made = job(memory=[word], shared_memory=word)
    assert (made.groups[0].memory, made.shared_memory) == (size, size)
    (tmp_path / "train.py").touch()
    (tmp_path / "job.yml").write_text(
        f"image: x:1\nscript: train.py\nshared_memory: {word}\nresources: {{memory: {word}}}\n"
        f"groups: {{a: {{memory: {word}}}}}\n"
    )
    spec = read_job_file(tmp_path / "job.yml").spec
    assert (spec.shared_memory, spec.resources.memory, spec.groups["a"].memory) == (size, size, size)


@pytest.mark.parametrize("word", ["4 GB", "4gg", "8mi", "4.5.6g", "1e3", "-1g", "g"])
def test_a_size_that_docker_refuses_is_refused_everywhere(word: str, tmp_path: Path) -> None:
    for options in ({"memory": [word]}, {"shared_memory": word}):
        with pytest.raises(UsageError, match="expected a size, such as 512m or 4g"):
            job(**options)
    (tmp_path / "train.py").touch()
    (tmp_path / "job.yml").write_text(f"image: x:1\nscript: train.py\nshared_memory: '{word}'\n")
    with pytest.raises(SpecError, match="3:16: shared_memory: expected a size, such as 512m or 4g"):
        read_job_file(tmp_path / "job.yml")


def test_a_limit_is_for_all_groups_or_for_the_one_that_is_named() -> None:
    two = ["data=1", "dnn=1"]
    found = job(groups=two, cpus=["2", "dnn=0.5"], memory=["data=512m"], gpus=["dnn=all"], instance_types=["ml.c5"])
    assert [(g.cpus, g.memory, g.gpus, g.instance_type) for g in found.groups] == [
        ("2", "512m", "", "ml.c5"), ("0.5", "", "all", "ml.c5"),
    ]  # fmt: skip


def test_scripts_are_copied_by_their_names() -> None:
    found = job(groups=["data=1", "dnn=1"], programs=["data=./train_data.py"], script="other/train.py")
    assert found.code == (Path.cwd() / "other/train.py", Path.cwd() / "train_data.py")
    assert (found.program, found.programs) == ("train.py", {"data": "train_data.py"})


def test_in_a_folder_of_code_scripts_are_paths_below_it(tmp_path: Path) -> None:
    found = job(source=".", script="other/train.py", groups=["a=1"], programs=["a=train_data.py"])
    assert (found.code, found.program, found.programs) == ((tmp_path,), "other/train.py", {"a": "train_data.py"})


def test_hyperparameters_are_as_they_were_typed() -> None:
    assert job(hyperparameters=["lr=0.1", "text=a=b", "empty="]).hyperparameters == {
        "lr": "0.1", "text": "a=b", "empty": "",
    }  # fmt: skip


def test_a_distribution_is_the_hyperparameter_that_asks_for_it() -> None:
    found = {name: job(distributed=name, hyperparameters=["lr=1"]).hyperparameters for name in STRATEGIES}
    assert found["torchrun"] == {"lr": "1", "sagemaker_torch_distributed_enabled": "true"}
    assert found["tensorflow"] == found["tf_multi_worker"]
    assert all(STRATEGIES[name] in hyperparameters for name, hyperparameters in found.items())
    assert job().hyperparameters == {}
    with pytest.raises(UsageError, match=r"--distributed: expected .*'torchrun'.*, found 'ddp'"):
        job(distributed="ddp")


def test_a_channel_is_a_folder() -> None:
    assert job(channels=["training=./data"]).channels == {"training": Path.cwd() / "data"}


def test_a_variable_without_a_value_is_this_shells_and_its_value_is_kept_off_command_lines() -> None:
    found = job({"KEY": "hush"}, environment=["KEY", "A=b"])
    assert found.environment["A"] == "b"
    assert "KEY" not in found.environment
    assert found.secrets == {"DLC_JOB_TOKEN": "secret", "KEY": "hush"}


def test_the_launcher_is_told_how_long_a_stop_may_take_unless_the_user_says_it() -> None:
    assert job(stop_seconds=7).environment == {"DLC_TERMINATION_GRACE": "7"}
    assert job(environment=["DLC_TERMINATION_GRACE=3"]).environment == {"DLC_TERMINATION_GRACE": "3"}


def test_the_authorities_that_dlc_is_told_to_trust_are_the_jobs_too(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    assert job({"DLC_CA_BUNDLE": "ca.pem"}).authorities == tmp_path / "ca.pem"
    assert job({"SSL_CERT_FILE": "ca.pem"}).authorities is None, "another program's variable"


def test_a_users_own_token_is_the_jobs() -> None:
    found = job(environment=["DLC_JOB_TOKEN=mine"])
    assert found.secrets == {"DLC_JOB_TOKEN": "mine"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"script": "none.py"}, "none.py: expected the file of an entry point, found no file /"),
        ({"script": "other"}, "--source"),
        ({"source": "nowhere"}, "--source: expected a folder"),
        (
            {"source": "other", "script": "train_data.py"},
            "train_data.py: expected the file of an entry point",
        ),
        ({"groups": ["a=0"]}, "--group a: expected a whole number above 0, found '0'"),
        ({"groups": ["a=x"]}, "--group a: expected a whole number above 0, found 'x'"),
        ({"groups": ["a="]}, "--group: expected NAME=N, such as data_group=2, found a="),
        ({"groups": ["=2"]}, "--group : expected a name of letters, digits, _ . and -, found ''"),
        ({"groups": ["a b=2"]}, "--group a b: expected a name of letters"),
        ({"groups": ["a=1", "a=2"]}, "--group a: expected it once, found it twice"),
        ({"groups": ["a=99999", "b=2"]}, "--group: expected at most 100000 hosts in all, found 100001"),
        ({"groups": ["a=1"], "cpus": ["b=1"]}, "--cpus: expected a group out of a, found 'b'"),
        ({"cpus": ["many"]}, "--cpus: expected a number of CPUs, such as 0.5, and no less than 0.01, found 'many'"),
        ({"cpus": ["-1"]}, "--cpus: expected a number of CPUs"),
        ({"cpus": ["0.001"]}, "--cpus: expected a number of CPUs"),
        ({"cpus": ["0.3333333333"]}, "--cpus: expected a number of CPUs"),
        ({"cpus": [""]}, "--cpus: expected [GROUP=]N, found ''"),
        ({"cpus": ["1", "2"]}, "--cpus: expected it once, found it twice"),
        ({"memory": ["4 GB"]}, "--memory: expected a size"),
        (
            {"memory": ["5m"]},
            "--memory: expected 6m or more, which is the least that a container starts with",
        ),
        ({"memory": ["6"]}, "--memory: expected 6m or more"),
        ({"memory": ["2x"]}, "--memory: expected a size"),
        ({"memory": ["-2g"]}, "--memory: expected a size"),
        (
            {"gpus": ["some"]},
            "--gpus: expected `all` or a number of GPUs, or some of them, such as device=0,1",
        ),
        ({"gpus": ["-1"]}, "--gpus: expected `all` or a number"),
        ({"gpus": ["device="]}, "--gpus: expected `all` or a number"),
        ({"gpus": ["device=0,,1"]}, "--gpus: expected `all` or a number"),
        ({"gpus": ['"device=0']}, "--gpus: expected `all` or a number"),
        ({"groups": ["a=1"], "gpus": ["b=device=0"]}, "--gpus: expected a group out of a, found 'b'"),
        ({"groups": ["a=1"], "cpus": ["device=0"]}, "--cpus: expected a group out of a, found 'device'"),
        ({"shared_memory": "big"}, "--shm-size: expected a size"),
        (
            {"groups": ["a=1"], "programs": ["a=none.py"]},
            "--program a: expected the file of an entry point",
        ),
        ({"groups": ["a=1"], "programs": ["b=train.py"]}, "--program: expected a group out of a"),
        ({"groups": ["a=1"], "programs": ["a=other/train.py"]}, "found two called train.py"),
        ({"hyperparameters": ["lr"]}, "--hp: expected KEY=VALUE, found 'lr'"),
        ({"hyperparameters": ["lr=1", "lr=2"]}, "--hp lr: expected it once, found it twice"),
        ({"channels": ["training=nowhere"]}, "--channel training: expected a folder"),
        ({"channels": ["training="]}, "--channel training: expected text, found nothing"),
        ({"source": "other", "script": "../train.py"}, "expected a path in other, which every host gets, found"),
        ({"source": "other", "script": f"{Path(__file__)}"}, "expected a path in other, which every host gets, found"),
        ({"channels": ["a/b=data"]}, "--channel: expected a group out of homogeneousCluster, found 'a'"),
        ({"channels": ["a b=data"]}, "--channel a b: expected a name of letters"),
        ({"environment": ["=x"]}, "--env: expected NAME[=VALUE], found '=x'"),
    ],
)
def test_a_word_that_is_wrong_is_one_error_that_names_its_option(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        job(**options)
    assert words in caught.value.message


def test_an_image_and_a_channel_may_be_of_one_group() -> None:
    two = ["data=1", "dnn=2"]
    found = read(groups=two, images=["data=dlc/small:1"], channels=["training=data", "data/raw=other"])
    data, dnn = found.host_groups
    assert (data.image, dnn.image) == ("dlc/small:1", "dlc/x:1")
    assert (list(data.channels), list(dnn.channels)) == (["training", "raw"], ["training"])
    made = make_job(found, {}, "token")
    assert [made.image_of(host) for host in made.hosts] == ["dlc/small:1", "dlc/x:1", "dlc/x:1"]
    assert made.channels_of("algo-1")["raw"] == Path.cwd() / "other"
    assert "raw" not in made.channels_of("algo-2")


def test_a_variable_that_the_shell_has_not_is_named() -> None:
    assert [found for _, _, found in read(environment=["NOT_SET"]).list_unset({})] == ["none"]
