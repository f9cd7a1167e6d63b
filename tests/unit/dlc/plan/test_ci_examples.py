"""examples/ci: the systems' own schemas take the files, and every dlc command of them is one that dlc takes."""

from __future__ import annotations

import json
import re
import shlex
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from dlc.__main__ import main
from dlc.cli import make_parser

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "examples/ci"
SCHEMAS = {"github-workflow.yml": "github-workflows", "gitlab-ci.yml": "gitlab-ci"}
NAMES = {
    "$GITHUB_RUN_ID-$GITHUB_RUN_ATTEMPT": "1-1", "$CI_PIPELINE_ID": "1", "$IMAGE": "registry.example/pytorch:1",
    "$KUBE_CONTEXT": "ml", "$JOB": "ci-1",
}  # fmt: skip
# What AWS's reference of a build specification has, as far as the file uses it.
CODEBUILD = {"version", "run-as", "env", "proxy", "batch", "phases", "reports", "artifacts", "cache"}
PHASES = {"install", "pre_build", "build", "post_build"}
PHASE = {"run-as", "on-failure", "runtime-versions", "commands", "finally"}


def read_yaml(name: str) -> Any:
    """Return a file of the folder. The key `on` is no boolean."""
    loader = type("Loader", (yaml.SafeLoader,), {})
    loader.yaml_implicit_resolvers = {
        first: [(tag, form) for tag, form in found if tag != "tag:yaml.org,2002:bool" or first in "tTfF"]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return yaml.load((FOLDER / name).read_text(), loader)


def commands_of(name: str) -> list[list[str]]:
    """Return the words of each dlc command, with values in place of the system's variables."""
    text = (FOLDER / name).read_text()
    for variable, value in NAMES.items():
        text = text.replace(variable, value)
    found = re.findall(r"^(?!\s*#).*?(?:run: |- |then )(dlc .+?)(?: \|\| true)?(?:; fi)?$", text, re.MULTILINE)
    return [shlex.split(command) for command in found]


def list_files() -> list[str]:
    return sorted(path.name for path in FOLDER.glob("*.yml") if path.name != "job.yml")


@pytest.mark.parametrize(("name", "schema"), SCHEMAS.items())
def test_the_systems_schema_takes_the_file(name: str, schema: str) -> None:
    text = files("check_jsonschema").joinpath(f"builtin_schemas/vendor/{schema}.json").read_text()
    validator = jsonschema.validators.validator_for(json.loads(text))(json.loads(text))
    value = read_yaml(name)
    assert [error.message for error in validator.iter_errors(value)] == []
    wrong = json.loads(json.dumps(value))
    (wrong.get("jobs") or wrong)["train"]["timeout" if "stages" in wrong else "timeout-minutes"] = {"hours": 6}
    assert list(validator.iter_errors(wrong)), "the schema sees a mistake"


def test_codebuilds_file_has_the_keys_of_its_reference() -> None:
    value = read_yaml("codebuild-buildspec.yml")
    assert value["version"] == 0.2
    assert set(value) <= CODEBUILD
    assert set(value["phases"]) <= PHASES
    for phase in value["phases"].values():
        assert set(phase) <= PHASE
        assert all(isinstance(command, str) for command in phase["commands"])


@pytest.mark.parametrize("name", list_files())
def test_each_file_shows_submits_and_stops_the_job(name: str) -> None:
    commands = commands_of(name)
    assert [words[1] for words in commands] == ["submit", "submit", "stop"]
    assert ["--dry-run" in words for words in commands[:2]] == [True, False]
    assert "--wait" in commands[1]
    for words in commands:
        parser, _ = make_parser(words[1])
        parser.parse_args(words[2:])
    [name_of_job] = {words[words.index("--name") + 1] for words in commands[:2]}
    assert commands[2][2] == name_of_job


@pytest.mark.parametrize("name", list_files())
def test_the_dry_run_of_each_file_prints_the_document(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(FOLDER)
    assert main(commands_of(name)[0][1:]) == 0
    out = capsys.readouterr().out
    assert "HF_TOKEN" in out
    assert "torch_distributed" in out
