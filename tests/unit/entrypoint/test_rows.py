"""Strategies and frameworks are rows: no other file knows one by its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.job_folder import JobFolder, decisions, hosts, install
from launch.base.errors import LaunchError
from launch.plan import frameworks, strategies
from launch.plan.frameworks import load_frameworks
from launch.plan.strategies import PLAIN, load_strategies

SOURCES = Path(__file__).parents[3] / "src"
ROWS = SOURCES / "entrypoint/launch/plan/strategies"
NAMES = {row.name for row in load_strategies()}
# The same words for something else
OTHER_MEANING = {
    "entrypoint/launch/plan/compiler_choice.py": "xla, the compiler",
    "dlc/cli/shared/lint_note.py": "xla, the compiler",
    "dlc/cli/tune_batch.py": "xla, the compiler",
    "entrypoint/launch/supervision/stop_targets.py": "torchrun, the program, which a user's script may start too",
    "dlc/places/field_table.py": "torchrun, an example of a value",
    "dlc/job/strategies.py": "is written from the rows",
}
ADDED = Path("tests/process/entrypoint/added")


def named(file: Path) -> Iterator[str]:
    """Yield the strategies that a file names, as a string or by their module."""
    where = file.relative_to(SOURCES)
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and node.value in NAMES:
            yield f"{where}:{node.lineno}: {node.value}"
        elif isinstance(node, ast.ImportFrom):
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (f"{where}:{node.lineno}: {name}" for name in whole if is_of_row(name))


def is_of_row(name: str) -> bool:
    return any(f"{name}.".startswith(f"launch.plan.strategies.{row}.") for row in NAMES)


def test_no_file_outside_of_the_rows_knows_a_strategy_by_its_name() -> None:
    files = [file for part in ("entrypoint/launch", "dlc") for file in (SOURCES / part).rglob("*.py")]
    found = {file.relative_to(SOURCES).as_posix(): list(named(file)) for file in files if ROWS not in file.parents}
    assert [line for name, lines in found.items() if name not in OTHER_MEANING for line in lines] == []
    assert [name for name in OTHER_MEANING if not found.get(name)] == []


def test_a_row_has_the_name_of_its_file_and_the_one_in_no_file_is_the_plain_process() -> None:
    assert {file.stem for file in ROWS.glob("[a-z]*.py")} | {PLAIN.name} == NAMES


def test_no_two_rows_are_asked_for_alike() -> None:
    rows = load_strategies()
    words = [word for row in rows for word in (row.name, *row.also_called)]
    hyperparameters = [name for row in rows for name in row.asked_by]
    assert all(name.endswith("_enabled") for name in hyperparameters), "else no row is looked for"
    for each in (words, hyperparameters, [row.order for row in rows]):
        assert len(each) == len(set(each))


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobFolder:
    """A job of two hosts in an image that holds toyflow, with the rows of added/ in the tables."""
    monkeypatch.setattr(strategies, "__path__", [*strategies.__path__, str(ADDED / "strategies")])
    monkeypatch.setattr(frameworks, "__path__", [*frameworks.__path__, str(ADDED / "frameworks")])
    job = JobFolder(tmp_path).config("resourceconfig", hosts("algo-1", "algo-2")).code().hyperparameters()
    install(job, "toyflow")
    return job


def test_a_framework_that_is_not_tensorflow_is_not_taken_for_pytorch(toy: JobFolder) -> None:
    theirs = ("PJRT", "ACCELERATE", "TORCH", "XLA", "TF_")
    assert [name for name in toy.explain()["env"] if name.startswith(theirs)] == []
    assert toy.explain()["env"]["TOYFLOW_DEVICES"] == "1"
    for compiler, others in (("inductor", "PyTorch"), ("xla", "TensorFlow or PyTorch")):
        toy.env(DLC_COMPILER=compiler)
        with pytest.raises(LaunchError, match=f"expected an image with {others}; found Toyflow; set DLC_COMPILER=off"):
            toy.explain()
    toy.env(DLC_COMPILER="").hyperparameters(sagemaker_distributed_dataparallel_enabled=True)
    assert "smdistributed runs on mpi with NCCL" in decisions(toy.explain())


def test_dlc_strategy_takes_an_added_row_and_its_message_names_it(toy: JobFolder) -> None:
    toy.env(DLC_STRATEGY="toy")
    assert toy.explain()["strategy"] == "toy"
    toy.env(DLC_STRATEGY="toi")
    with pytest.raises(LaunchError, match=r"expected one of single, .*ray, toy; found 'toi'"):
        toy.explain()


def test_an_image_is_known_by_the_packages_of_its_frameworks() -> None:
    assert [row.title for row in load_frameworks(frozenset(("torch", "six.py")))] == ["PyTorch"]
    assert [row.title for row in load_frameworks(frozenset())] == ["TensorFlow", "PyTorch"]
