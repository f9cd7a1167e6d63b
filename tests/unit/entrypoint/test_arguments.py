"""Hyperparameters as arguments: each dialect is read back by the parser that it is for."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from harness.job_folder import TORCHRUN, JobFolder
from launch.base.errors import LaunchError
from launch.job.failure_hints import hint_for_arguments
from launch.job.hyperparameters import DIALECTS, as_arguments

GIVEN = {"lr": 0.1, "no-accel": True, "debug": False, "b": 32, "name": "a b"}


def test_flags_are_read_by_store_true() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-accel", action="store_true")
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("-b", type=int)
    parser.add_argument("--lr", type=float)
    parser.add_argument("--name")
    read = parser.parse_args(as_arguments(GIVEN, "flags"))
    assert vars(read) == {"no_accel": True, "debug": False, "b": 32, "lr": 0.1, "name": "a b"}


def test_pythons_spelling_of_a_boolean_is_a_flag_too() -> None:
    assert as_arguments({"a-b": "True", "c-d": "False", "e-f": 1}, "flags") == ("--a-b", "--e-f", "1")


@pytest.mark.parametrize("text", [r"[\u0000-\u007f]", r"\\u0000", 'it\'s "q" \\'])
def test_a_text_that_spells_a_nul_is_passed_on_as_it_is(tmp_path: Path, text: str) -> None:
    job = JobFolder(tmp_path).code().hyperparameters(pattern=text)
    assert job.explain()["job"]["arguments"] == ["--pattern", text]


def test_equals_signs_keep_a_value_that_looks_like_an_option() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--lr", "--no-accel", "--debug", "-b", "--name", "--shift"):
        parser.add_argument(name)
    read = parser.parse_args(as_arguments({**GIVEN, "shift": "-5 -6"}, "equals"))
    assert (read.no_accel, read.debug, read.b, read.name, read.shift) == ("True", "False", "32", "a b", "-5 -6")


def test_sdk3_passes_no_parameter_of_the_platform(tmp_path: Path) -> None:
    job = JobFolder(tmp_path).code().hyperparameters(sagemaker_region="eu-west-1", lr=0.1, verbose=True)
    arguments_of = job.env(DLC_ARGV_DIALECT="sdk3").explain()["job"]["arguments"]
    assert arguments_of == ["--lr", "0.1", "--verbose", "true"]


@pytest.mark.parametrize("stated", [8, 8.0, "8", " 8 "], ids=repr)
def test_a_whole_number_may_be_spelled_in_any_way(tmp_path: Path, stated: object) -> None:
    job = JobFolder(tmp_path / "ml").code()
    job.hyperparameters(**TORCHRUN, sagemaker_mpi_num_of_processes_per_host=stated)
    assert job.process()["argv"][4] == "8"


@pytest.mark.parametrize("name", ["2026", "1e3", "true", "resnet-50"])
@pytest.mark.parametrize("encoded", [False, True])
def test_a_jobs_name_is_a_name_also_where_it_reads_like_a_number(tmp_path: Path, name: str, encoded: bool) -> None:
    job = JobFolder(tmp_path / "ml").code().env(SAGEMAKER_PROGRAM="train.py")
    job.config("hyperparameters", {"sagemaker_job_name": json.dumps(name) if encoded else name})
    assert job.explain()["env"]["SAGEMAKER_JOB_NAME"] == name


def test_an_unknown_dialect_is_an_error_that_names_all(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="one of toolkit, sdk3, flags, equals"):
        JobFolder(tmp_path).code().hyperparameters().env(DLC_ARGV_DIALECT="klingon").explain()


@pytest.mark.parametrize(
    "line",
    [
        "train.py: error: unrecognized arguments: True",
        "train.py: error: argument --lr: expected one argument",
        "train.py: error: argument --no-accel: ignored explicit argument 'True'",
        "FATAL Flags parsing error: flag --lr=: Expected float",
    ],
)
def test_words_of_a_parser_that_refuses_bring_the_switch_to_mind(line: str) -> None:
    for dialect in DIALECTS:
        advice = hint_for_arguments(["usage: train.py", line], dialect)
        assert "DLC_ARGV_DIALECT" in advice
        assert all((f"{other}:" in advice) == (other != dialect) for other in DIALECTS)


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("train.py: error: unrecognized arguments: --num_epochs 1", "--num_epochs"),
        ("train.py: error: unrecognized arguments: -b=8 more", "-b"),
        ("FATAL Flags parsing error: Unknown command line flag 'epochs'. Did you mean: epoch ?", "epochs"),
        ("Error: No such option: --lr", "--lr"),
        ("Error: No such option '--lr'. Did you mean '--learning-rate'?", "--lr"),
    ],
)
def test_an_option_that_the_script_lacks_is_named_and_brings_no_dialect_to_mind(line: str, option: str) -> None:
    advice = hint_for_arguments(["usage: train.py", line], "toolkit")
    assert f"has no option {option};" in advice
    assert "DLC_ARGV_DIALECT" not in advice


@pytest.mark.parametrize(
    ("lines", "key", "value"),
    [
        (["train.py: error: argument --epochs: invalid int value: 'x'"], "epochs", "x"),
        (["train.py: error: argument --opt: invalid choice: 'adm' (choose from 'sgd', 'adam')"], "opt", "adm"),
        (["train.py: error: argument -b/--batch: invalid int value: '1e3'"], "b/--batch", "1e3"),
        (["FATAL Flags parsing error:", "  flag --lr=fast: could not convert string to float: 'fast'"], "lr", "fast"),
        (["Error: Invalid value for '--epochs': 'x' is not a valid integer."], "epochs", "x"),
    ],
)
def test_a_value_that_the_script_does_not_take_is_named_and_brings_no_dialect_to_mind(
    lines: list[str], key: str, value: str
) -> None:
    advice = hint_for_arguments(lines, "toolkit")
    assert f"the hyperparameter {key}" in advice
    assert repr(value) in advice
    assert "DLC_ARGV_DIALECT" not in advice


@pytest.mark.parametrize("value", ["True", "false", "", "[1, 2]", "{'a': 1}"])
def test_a_value_that_is_so_because_of_the_dialect_brings_the_switch_to_mind(value: str) -> None:
    line = f"train.py: error: argument --flag: invalid bool value: '{value}'"
    assert "DLC_ARGV_DIALECT" in hint_for_arguments([line], "toolkit")


def test_options_that_exclude_each_other_are_no_question_of_the_dialect() -> None:
    assert hint_for_arguments(["train.py: error: argument --cpu: not allowed with argument --gpu"], "toolkit") == ""


def test_other_failures_bring_no_dialect_to_mind() -> None:
    assert hint_for_arguments(["ValueError: unrecognized arguments of mine", "error: CUDA"], "toolkit") == ""


def test_a_tool_that_starts_scripts_and_refuses_its_own_options_brings_no_dialect_to_mind() -> None:
    assert hint_for_arguments(["torchrun: error: unrecognized arguments: --nonsense"], "toolkit") == ""
