"""A job's file says what a command line says; what is wrong in it is named with line and column."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from dlc.cli import make_parser
from dlc.cli.schema import list_pages, make_job_texts
from dlc.cli.shared.own_words import split_words
from dlc.core.checkout import find_root
from dlc.core.errors import SpecError, UsageError
from dlc.job.job_file import format_job, list_open_secrets, make_schema, read_job_file
from dlc.job.job_spec import PLACES, JobSpec
from dlc.job.stated_job import StatedJob
from dlc.job.strategies import STRATEGIES
from dlc.job.values import FromShell
from dlc.job.words import read_words
from dlc.places import local

SHELL = {"HF_TOKEN": "of the shell"}
COMMANDS = [
    "IMAGE train.py",
    "--hosts 3 --distributed torchrun --hp lr=0.1 --hp flag=true IMAGE train.py",
    "--hp layers=[64,32] --hp text='a:b' --channel training=data --checkpoints saved IMAGE train.py",
    "--env A=b --env HF_TOKEN --env EMPTY= --user 1000 --shm-size 2g --grace 90 IMAGE train.py",
    "--cpus 2 --memory 512m --gpus all --instance-type ml.c5.xlarge IMAGE train.py",
    "--group a=1 --group b --hosts 2 --cpus a=0.5 --cpus 4 --gpus b=device=0,1 --program a=data.py IMAGE train.py",
    "--source code --program homogeneousCluster=inner/data.py IMAGE train.py",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("data", "code/inner"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("train.py", "data.py", "code/train.py", "code/inner/data.py"):
        (tmp_path / name).touch()
    return tmp_path


def type_job(command: str) -> JobSpec:
    """Return the job of a command line of dlc run, whose script gets arguments."""
    parser, module = make_parser("run")
    words = split_words(parser, [*command.replace("'", "").split(), "--x", "1"], module.ends_own_words)
    args = parser.parse_intermixed_args(words.own)
    args.arguments = words.passed_on
    return read_words(args).spec


def read(folder: Path, text: str) -> StatedJob:
    path = folder / "job.yml"
    path.write_text(text)
    return read_job_file(path)


def complaints(folder: Path, text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        read(folder, text)
    return [line.removeprefix(f"{folder}/job.yml:") for line in caught.value.message.splitlines()]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_saved_job_is_the_same_job(folder: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    job = type_job(command)
    assert read(folder, format_job(job, folder)).spec == job


@pytest.mark.parametrize("command", COMMANDS)
def test_the_schema_takes_what_is_saved_whether_numbers_have_quotes_or_not(
    folder: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    text = format_job(type_job(command), folder)
    for loader in (yaml.SafeLoader, yaml.BaseLoader):
        found = [error.message for error in Draft202012Validator(make_schema()).iter_errors(yaml.load(text, loader))]
        assert found == []


def test_paths_are_from_the_files_folder_and_stay_short_in_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder / "code")
    text = format_job(type_job("--channel training=../data --channel far=/ IMAGE ../train.py"), folder)
    assert "script: train.py" in text
    assert "training: data" in text
    assert "far: /" in text


def test_a_value_that_is_a_secret_by_its_name_is_not_written(folder: Path) -> None:
    said = {"AWS_SECRET_ACCESS_KEY": "shown", "HF_TOKEN": FromShell(), "A": "b"}
    job = JobSpec(image="x", script=str(folder / "train.py"), environment=said)
    text = format_job(job, folder)
    assert "shown" not in text
    spec = read(folder, text).spec
    assert spec.environment == {**said, "AWS_SECRET_ACCESS_KEY": FromShell()}
    assert list_open_secrets(spec) == []


def test_a_secret_in_the_file_is_warned_of_and_not_shown(folder: Path) -> None:
    (warning,) = list_open_secrets(read(folder, "image: x\nscript: train.py\nenvironment: {MY_TOKEN: abc}").spec)
    assert warning.startswith("environment.MY_TOKEN: its value is in the file")
    assert "abc" not in warning


GOOD = "image: x\nscript: train.py\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("script: train.py", ["1:1: image: expected a value for image, found none"]),
        ("image: x\nscript: trian.py", ["2:9: script: expected the file of an entry point, found no file {}/trian.py"]),
        ("image: x\nscript: code", ["2:9: script: expected the file of an entry point, found a folder, {}/code: name "
                                    "the file in it, and the folder as `source` (--source)"]),
        (f"{GOOD}source: cod", ["3:9: source: expected a folder, found no folder {}/cod"]),
        (f"{GOOD}source: code\ngroups: {{a: {{program: ../data.py}}}}",
         ["4:23: groups.a.program: expected a path in code, which every host gets, found ../data.py"]),
        ("image: x\nscript: /train.py\nsource: code",
         ["2:9: script: expected a path in code, which every host gets, found /train.py"]),
        (f"{GOOD}groups: {{a: {{hosts: 100000}}, b: {{}}}}",
         ["3:9: groups: expected at most 100000 hosts in all, found 100001"]),
        (f"{GOOD}channels: {{training: dat}}",
         ["3:22: channels.training: expected a folder, or an address such as s3://bucket/data, found no folder "
          "{}/dat"]),
        (f"{GOOD}hosts: 0", ["3:8: hosts: expected a whole number above 0, found '0'"]),
        (f"{GOOD}hosts: 100001", ["3:8: hosts: expected at most 100000 hosts in all, found 100001"]),
        (f"{GOOD}groups: {{a: {{hosts: 60000}}, b: {{hosts: 60000}}}}",
         ["3:9: groups: expected at most 100000 hosts in all, found 120000"]),
        (f"{GOOD}distributed: torchrum",
         ["3:14: distributed: expected '', 'horovod', 'mpi', 'ray', 'tensorflow', 'tf_multi_worker', "
          "'tf_parameter_server', 'torchrun' or 'xla', found 'torchrum'; did you mean 'torchrun'?"]),
        (f"{GOOD}resources: {{gpu: 1}}",
         ["3:13: resources.gpu: expected one of cpus, gpus, instance_type, memory, found unknown key 'gpu'; "
          "did you mean 'gpus'?"]),
        (f"{GOOD}resources: {{memory: 5m, cpus: many}}",
         ["3:21: resources.memory: expected 6m or more, which is the least that a container starts with, found '5m'",
          "3:31: resources.cpus: expected a number of CPUs, such as 0.5, and no less than 0.01, found 'many'"]),
        (f"{GOOD}groups: {{a b: {{}}}}",
         ["3:10: groups.a b: expected a name of letters, digits, _ . and -, found 'a b'"]),
        (f"{GOOD}environment: {{1A: b, C: {{form: environment}}}}",
         ["3:15: environment.1A: expected the name of an environment variable, found '1A'",
          "3:25: environment.C: expected text, or {from: environment} for the shell's own value, found a mapping"]),
        (f"{GOOD}hyperparameters: {{layers: [64, 32]}}",
         ["3:27: hyperparameters.layers: expected text, found a list of 2"]),
        (f"{GOOD}places: {{slurn: {{}}}}",
         ["3:10: places.slurn: expected 'local', 'slurm', 'kubernetes', 'sagemaker', 'skypilot' or 'dstack', found "
          "'slurn'; did you mean 'slurm'?"]),
        (f"{GOOD}image: y", ["3:1: image: expected each key once, found it also at {}/job.yml:1:1"]),
        ("- image", ["1:1: expected a mapping with image and script"]),
        ("image: [", ["1:9: expected YAML, found while parsing a flow node: expected the node content, but found "
                      "'<stream end>'"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_line_and_column(folder: Path, text: str, said: list[str]) -> None:
    assert complaints(folder, text) == [line.replace("{}", str(folder)) for line in said]


def test_a_file_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(UsageError, match="expected the file of a job, found none"):
        read_job_file(folder / "none.yml")


def test_what_is_no_text_is_named(folder: Path) -> None:
    (folder / "job.yml").write_bytes(b"image: \xff\n")
    with pytest.raises(UsageError, match=r"job\.yml: expected the file of a job, found .*utf-8"):
        read_job_file(folder / "job.yml")


def test_a_path_of_the_file_may_begin_in_a_home_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    file = read(folder / "code", "image: x\nscript: ~/train.py\nchannels: {training: ../data}\n")
    assert (file.spec.script, file.spec.channels) == (f"{folder}/train.py", {"training": f"{folder}/data"})


def test_a_hyperparameters_name_may_hold_what_separates_words_of_a_command_line(folder: Path) -> None:
    file = read(folder, f"{GOOD}hyperparameters: {{a=b: c, a: d}}\n")
    assert file.spec.parameters == {"a=b": "c", "a": "d"}


def refuse_here(spec: JobSpec) -> list[tuple[str, ...]]:
    return [refusal.keys for refusal in local.refuse_job(spec, local.OPTIONS())]


def test_addresses_are_for_other_places(folder: Path) -> None:
    groups = "groups: {a: {channels: {far: s3://bucket/other}}, b: {}}\n"
    file = read(
        folder, f"{GOOD}{groups}channels: {{far: s3://bucket/data, near: data}}\ncheckpoints: s3://bucket/saved"
    )
    assert refuse_here(file.spec) == [("channels", "far"), ("groups", "a", "channels", "far"), ("checkpoints",)]
    assert file.spec.channels == {"far": "s3://bucket/data", "near": f"{folder}/data"}


def test_this_machine_has_100_hosts_and_names_them_itself(folder: Path) -> None:
    file = read(folder, f"{GOOD}hosts: 101\nenvironment: {{DLC_HOSTS: 'a,b', DLC_RANK: {{from: environment}}}}\n")
    assert [".".join(keys) for keys in refuse_here(file.spec)] == [
        "hosts",
        "environment.DLC_HOSTS",
        "environment.DLC_RANK",
    ]


def test_a_job_names_each_place_once() -> None:
    assert make_schema()["properties"]["places"]["propertyNames"]["enum"] == [*PLACES]


def test_a_variable_that_the_shell_has_not_is_named_at_its_line(folder: Path) -> None:
    file = read(folder, f"{GOOD}environment: {{HF_TOKEN: {{from: environment}}, A: b}}")
    assert list(file.spec.list_unset(SHELL)) == []
    assert [keys for keys, _, _ in file.spec.list_unset({})] == [("environment", "HF_TOKEN")]


def test_the_schema_of_the_docs_is_that_of_the_keys_and_the_example_is_valid_by_it() -> None:
    root = find_root(Path(__file__).parent)
    written = make_job_texts({page: (root / page).read_text() for page in list_pages(root)})
    assert {path: (root / path).read_text() for path in written} == written
    example = yaml.safe_load((root / "examples/heterogeneous/pytorch/job.yml").read_text())
    assert [error.message for error in Draft202012Validator(make_schema()).iter_errors(example)] == []


def test_the_file_knows_each_strategy_of_dlc_run() -> None:
    assert set(json.loads(json.dumps(make_schema()))["properties"]["distributed"]["enum"]) == {"", *STRATEGIES}
