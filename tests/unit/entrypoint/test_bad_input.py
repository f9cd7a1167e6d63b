"""Whatever stands in the config files: one line, a failure file, an exit code of sysexits.h, and nothing started."""

from __future__ import annotations

import json
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.job_folder import JobFolder
from launch import main
from launch.base.errors import LaunchError
from launch.plan.sagemaker_environment import LONGEST_VARIABLE_BYTES

FILES = ("resourceconfig", "hyperparameters", "inputdataconfig")
MALFORMED = {
    "empty": b"",
    "blank": b" \n",
    "text": b"hello",
    "list": b"[1]",
    "null": b"null",
    "cut off": b'{"a": ',
    "NUL bytes": b"\0\0\0",
    "NUL inside": b'{"a": "\0"}',
    "not UTF-8": b'{"a": "\xff\xfe"}',
    "deep": b"[" * 100_000,
    "deep object": b'{"a":' * 100_000,
    "10 MB": b'{"a": "' + b"x" * 10_000_000 + b'"}',
    "a number of 10000 digits": b"1" * 10_000,
}


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path / "ml").code(text="open('started', 'w')")


def train(job: JobFolder) -> int:
    return main.main(["train"], job.environ)


def failure(job: JobFolder) -> str:
    return (job.base / "output/failure").read_text()


@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("name", FILES)
def test_a_malformed_file_ends_the_job_with_one_line_about_it(
    job: JobFolder, name: str, content: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    job.env(SAGEMAKER_PROGRAM="train.py").config(name, content)
    assert train(job) in (65, 66)
    line = capfd.readouterr().err
    assert line.startswith(f"dlc: {job.base}/input/config/{name}.json: ")
    assert "; expected " in line
    assert "; found " in line
    assert line.count("\n") == 1
    assert len(line) < 1000
    assert failure(job) == line[len("dlc: ") :]
    assert not (job.base / "code/started").exists()


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_read_is_an_error(job: JobFolder, name: str) -> None:
    (job.base / f"input/config/{name}.json").mkdir()
    assert train(job.env(SAGEMAKER_PROGRAM="train.py")) == 66


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"sagemaker_program": "3"}, "sagemaker_program; expected a string"),
        ({"sagemaker_program": '""'}, "no entry point"),
        ({"sagemaker_program": '"nope.py"'}, "no such entry point"),
        ({"sagemaker_program": '"/etc/passwd"'}, "outside the code directory"),
        ({"sagemaker_program": '"a\\u0000.py"'}, "expected a value that an argument can carry"),
        ({"a": '"\\ud800"'}, "a; expected a value that an argument can carry"),
        ({"a\0b": "1"}, "a key; expected text without NUL"),
        ({"a": ["x\0"]}, "a; expected a value"),
        ({"sagemaker_mpi_enabled": '"maybe"'}, "sagemaker_mpi_enabled; expected true or false"),
        ({"sagemaker_mpi_enabled": "[]"}, "sagemaker_mpi_enabled; expected true or false"),
        (
            {"sagemaker_torch_distributed_enabled": "true", "sagemaker_mpi_num_of_processes_per_host": "-1"},
            "sagemaker_mpi_num_of_processes_per_host; expected a positive number",
        ),
        ({"sagemaker_mpi_enabled": "true", "sagemaker_mpi_custom_mpi_options": "7"}, "expected a string"),
        ({"sagemaker_mpi_enabled": "true", "sagemaker_mpi_custom_mpi_options": "-x 'A"}, "expected options of mpirun"),
        ({"sagemaker_distribution_instance_groups": '"dnn"'}, "expected a list of group names"),
        ({"sagemaker_distribution_instance_groups": '["dnn"]'}, "expected names out of"),
        ({"sagemaker_submit_directory": "7"}, "sagemaker_submit_directory; expected a string"),
        ({"big": "x" * (LONGEST_VARIABLE_BYTES + 1)}, "expected at most 131071 bytes"),
        ({f"key-{number}": "x" * 1000 for number in range(200)}, "expected at most 131071 bytes"),
    ],
)
def test_a_hyperparameter_that_cannot_be_used_is_named(
    job: JobFolder, parameters: dict[str, Any], expected: str, capfd: pytest.CaptureFixture[str]
) -> None:
    job.config("hyperparameters", {"sagemaker_program": "train.py", **parameters})
    assert 64 <= train(job) <= 78
    line = capfd.readouterr().err.splitlines()[-1]
    assert expected in line
    assert failure(job) == f"{line[len('dlc: ') :]}\n"
    assert not (job.base / "code/started").exists()


@pytest.mark.parametrize("channel", ["", "a/b", "..", ".", "a\0b"])
def test_a_channel_that_names_no_folder_is_an_error(job: JobFolder, channel: str) -> None:
    job.hyperparameters().config("inputdataconfig", {channel: {}})
    assert train(job) == 65


def test_a_channel_has_to_be_an_object(job: JobFolder) -> None:
    assert train(job.hyperparameters().config("inputdataconfig", {"train": 3})) == 65


@pytest.mark.parametrize(
    "switch",
    [
        {"DLC_NUM_GPUS": "x"},
        {"DLC_NUM_CPUS": "-1"},
        {"DLC_EFA": "yes"},
        {"DLC_STRATEGY": "magic"},
        {"DLC_ARGV_DIALECT": "klingon"},
        {"DLC_STOP_GRACE": "soon"},
        {"DLC_HANG_TIMEOUT": "-3"},
        {"DLC_STRATEGY": "horovod", "DLC_HOROVOD_CONTROLLER": "x"},
        {"DLC_STRATEGY": "torchrun", "DLC_ELASTIC": "4:1"},
        {"DLC_STRATEGY": "tf_parameter_server", "DLC_TF_CHIEF": "boss"},
        {"DLC_HOSTS": ""},
        {"DLC_LOGS": "true"},
        {"DLC_DEBUG": "on"},
        {"DLC_PREFLIGHT": "WARN"},
        {"DLC_STOPPED_EXIT_CODE": "abc"},
        {"DLC_DATA_HOSTS_MAY_FAIL": "yes"},
    ],
)
def test_a_switch_that_cannot_be_used_is_an_error(job: JobFolder, switch: dict[str, str]) -> None:
    assert train(job.hyperparameters().env(**switch)) in (65, 78)


@pytest.mark.parametrize("switch", ["DLC_MAX_RESTARTS", "DLC_STOPPED_EXIT_CODE", "DLC_LOGS"])
def test_a_wrong_switch_is_told_before_anything_is_fetched_or_installed(job: JobFolder, switch: str) -> None:
    with pytest.raises(LaunchError, match=switch):
        job.hyperparameters().env(**{switch: "often"}).explain()


@pytest.mark.parametrize(("value", "shows"), [("0", False), ("", False), ("1", True)])
def test_a_traceback_of_the_launchers_own_is_shown_only_where_it_is_asked_for(
    job: JobFolder, value: str, shows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("bug")

    monkeypatch.setattr("launch.train.train", broken)
    job.env(DLC_DEBUG=value)
    with pytest.raises(KeyError, match="bug") if shows else nullcontext():
        assert train(job) == 70


def test_a_failure_file_of_an_earlier_run_is_not_this_ones(job: JobFolder) -> None:
    """What a script writes while it runs is kept; here none has run."""
    (job.base / "output").mkdir()
    (job.base / "output/failure").write_text("an earlier reason")
    assert train(job.config("hyperparameters", "x")) == 65
    assert "hyperparameters.json" in failure(job)


def test_explain_writes_no_failure_file(job: JobFolder, capfd: pytest.CaptureFixture[str]) -> None:
    job.config("hyperparameters", "x")
    before = sorted(job.base.rglob("*"))
    assert main.main(["--explain"], job.environ) == 65
    assert capfd.readouterr().out == ""
    assert sorted(job.base.rglob("*")) == before


def test_the_failure_file_is_written_even_where_the_output_folder_is_not_there(job: JobFolder) -> None:
    train(job.config("resourceconfig", "{"))
    assert "not JSON" in failure(job)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner))
HOST_LISTS = st.lists(st.sampled_from(["algo-1", "algo-2", "algo-3", "", "-x", "a b"]) | VALUES, max_size=4) | VALUES
GROUPS = st.lists(
    st.fixed_dictionaries(
        {}, optional={"instance_group_name": st.sampled_from(["g", "h"]) | VALUES, "hosts": HOST_LISTS, "x": VALUES}
    )
    | VALUES,
    max_size=3,
)
RESOURCE_CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "current_host": st.sampled_from(["algo-1", "algo-9"]) | VALUES,
        "hosts": HOST_LISTS,
        "instance_groups": GROUPS | VALUES,
        "current_group_name": st.sampled_from(["g", "h"]) | VALUES,
        "current_instance_type": VALUES,
        "network_interface_name": VALUES,
        "topology": VALUES,
    },
)
FLAGS = st.sampled_from(
    [
        "sagemaker_mpi_enabled",
        "sagemaker_torch_distributed_enabled",
        "sagemaker_parameter_server_enabled",
        "sagemaker_distribution_instance_groups",
        "sagemaker_mpi_num_of_processes_per_host",
        "sagemaker_mpi_custom_mpi_options",
        "sagemaker_program",
        "sagemaker_submit_directory",
        "sagemaker_container_log_level",
        "sagemaker_job_name",
        "sagemaker_region",
        "model_dir",
    ]
)
HYPERPARAMETERS = st.dictionaries(FLAGS | st.text(max_size=4), st.text(max_size=8) | VALUES, max_size=6)


def explained(contents: dict[str, bytes]) -> dict[str, Any] | LaunchError:
    """What --explain makes of these config files; any other exception is a traceback of the launcher's own."""
    with tempfile.TemporaryDirectory() as folder:
        job = JobFolder(Path(folder) / "ml").code().env(SAGEMAKER_PROGRAM="train.py")
        for name, content in contents.items():
            job.config(name, content)
        try:
            return job.explain()
        except LaunchError as error:
            return error


@given(RESOURCE_CONFIGS | VALUES, HYPERPARAMETERS | VALUES, st.dictionaries(st.text(max_size=4), VALUES) | VALUES)
def test_no_content_whatever_brings_out_a_traceback(resources: Any, parameters: Any, channels: Any) -> None:
    contents = zip(FILES, (resources, parameters, channels), strict=True)
    result = explained({name: json.dumps(content).encode() for name, content in contents})
    if isinstance(result, LaunchError):
        assert 64 <= result.exit_code <= 78
        assert "\n" not in str(result)
    else:
        for process in result["processes"]:
            for text in (*process["argv"], *process["env"], *process["env"].values()):
                assert "\0" not in text
                assert text.encode() is not None


@given(st.binary(max_size=200), st.sampled_from(FILES))
def test_no_bytes_whatever_bring_out_a_traceback(content: bytes, name: str) -> None:
    result = explained({name: content})
    assert not isinstance(result, LaunchError) or result.exit_code in (65, 66)
