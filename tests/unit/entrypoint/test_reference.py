"""The documentation's tables are complete and fresh."""

from __future__ import annotations

import json
import re
from pathlib import Path

import launcher_tables as reference

from harness.job_folder import JobFolder, decisions, hosts
from launch.base import settings, variables
from launch.base.settings import JOB_TOKEN, JOB_TOKEN_FILE, RUNTIME_SETTINGS, SETTINGS
from launch.plan import explain
from launch.plan.host_plan import make_host_plan
from launch.plan.request import read_request
from launch.plan.strategies import load_strategies

PAGE = "docs/launcher-reference.md"
REFRESH = f"python scripts/launcher_tables.py {PAGE}"


def test_the_tables_in_the_documentation_are_fresh() -> None:
    document = Path(PAGE).read_text()
    assert reference.refreshed(document) == document, REFRESH
    assert reference.variables_table() in document
    assert reference.switches_table() in document


def test_dlc_knows_the_strategies_of_the_table() -> None:
    assert reference.strategies_module() == reference.STRATEGIES.read_text(), REFRESH


def test_the_pages_name_each_strategy_and_each_hyperparameter_of_the_table() -> None:
    started = Path("docs/launcher.md").read_text().partition("## What it starts\n")[2].partition("\n\nIf a job")[0]
    asked = next(
        line for line in Path("docs/running.md").read_text().splitlines() if "`--distributed STRATEGY`" in line
    )
    for row in load_strategies():
        [line] = [line for line in started.splitlines() if line.startswith(f"| `{row.name}` |")]
        assert [name for name in row.asked_by if f"`{name}`" not in started] == []
        assert row.asked_by == () or f"`{row.asked_by[0]}`" in line
        assert [word for word in (row.name, *row.also_called) if row.asked_by and f"`{word}`" not in asked] == []


def test_every_switch_has_somebody_who_needs_it() -> None:
    assert reference.USERS.keys() == {setting.name for setting in SETTINGS}
    assert all(reference.USERS.values())


def test_every_variable_that_a_job_gets_is_in_the_table(tmp_path: Path) -> None:
    for number, asked_by in enumerate(name for row in load_strategies() for name in row.asked_by):
        job = JobFolder(tmp_path / str(number)).config("resourceconfig", hosts("algo-1", "algo-2")).code()
        compiler = {"sagemaker_training_compiler_enabled": True, "sagemaker_training_compiler_debug_mode": True}
        job.hyperparameters(**{asked_by: True, **compiler}).env(DLC_NUM_GPUS="2", DLC_EFA="1")
        job.env(DLC_COMPILER_DEFAULT="xla")
        for process in job.explain()["processes"]:
            assert [name for name in process["env"] if variables.family_of(name) is None] == []


def test_a_users_value_stays_exactly_where_the_table_says_so(tmp_path: Path) -> None:
    job = JobFolder(tmp_path).config("resourceconfig", hosts("algo-1", "algo-2")).code()
    job.hyperparameters(sagemaker_torch_distributed_enabled=True).env(DLC_NUM_GPUS="2", DLC_EFA="1")
    for name in job.process()["env"]:
        variable = variables.family_of(name)
        own = job.environ.get(name)
        job.environ[name] = "mine"
        changed = name in job.process()["env"]
        assert variable is not None
        assert changed != variable.user_wins, name
        job.environ.pop(name) if own is None else job.environ.update({name: own})


def test_every_switch_that_the_source_reads_is_in_the_table_and_every_switch_is_read() -> None:
    names = set(settings.PORTS)
    for path in Path("src/entrypoint").rglob("*.py"):
        if path.parts[-2:] not in (("base", "settings.py"), ("base", "variables.py")):
            text = path.read_text()
            names |= set(re.findall(r'"(DLC_[A-Z0-9_]+)"', text))
            names |= {JOB_TOKEN, JOB_TOKEN_FILE} if "JOB_TOKEN" in text else set()
    set_by_us = {variable.name for variable in variables.VARIABLES}
    assert names - set_by_us == {setting.name for setting in SETTINGS}


def test_the_json_of_explain_is_one_object(tmp_path: Path) -> None:
    data = JobFolder(tmp_path).code().hyperparameters().explain()
    keys = {"contract", "cluster", "job", "devices", "strategy", "env", "reasons", "before", "processes", "decisions"}
    assert set(json.loads(json.dumps(data))) == keys


def test_explain_gives_a_reason_for_every_variable_and_leaves_none_out(tmp_path: Path) -> None:
    job = JobFolder(tmp_path).config("resourceconfig", hosts("algo-1", "algo-2")).code()
    job.hyperparameters(sagemaker_torch_distributed_enabled=True, lr=0.1).env(DLC_NUM_GPUS="2")
    data = job.explain()
    [process] = data["processes"]
    assert data["reasons"].keys() == process["env"].keys()
    assert all(data["reasons"].values())
    lines = explain.as_text(make_host_plan(read_request(job.environ))).splitlines()
    for name in process["env"]:
        assert [line for line in lines if line.startswith(f"    {name}=")] != [], name
    assert "    NCCL_DEBUG=WARN    # WARN: NCCL says why it fails" in lines
    assert "    SM_HP_LR=0.1" in lines
    assert len([line for line in lines if line.startswith("    MASTER_ADDR=")]) == 1, "what all get stands once"


def test_what_the_library_reads_is_known_too() -> None:
    names: set[str] = set()
    for path in Path("src/dlc_runtime").rglob("*.py"):
        names |= set(re.findall(r'"(DLC_[A-Z0-9_]+)"', path.read_text()))
    assert names - set(RUNTIME_SETTINGS) <= {name.name for name in (*SETTINGS, *variables.VARIABLES)}
    assert set(RUNTIME_SETTINGS) <= names


def test_a_switch_that_is_misspelt_is_warned_of_with_the_one_that_is_meant(tmp_path: Path) -> None:
    job = JobFolder(tmp_path).code().hyperparameters().env(DLC_ARGV_DIALEKT="flags", DLC_OF_MY_OWN="1")
    assert "warning: nothing reads DLC_ARGV_DIALEKT: did you mean DLC_ARGV_DIALECT?" in decisions(job.explain())
    assert settings.find_misspelt(job.environ) == {"DLC_ARGV_DIALEKT": "DLC_ARGV_DIALECT"}
    assert (
        settings.find_misspelt(dict.fromkeys((*RUNTIME_SETTINGS, *(setting.name for setting in SETTINGS)), "1")) == {}
    )
