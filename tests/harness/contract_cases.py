"""The worked cases of the contract, and a job's folder laid out as one of them describes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.job_folder import JobFolder

CASES = {case["id"]: case for case in json.loads(Path("tests/contract/cases.json").read_text())}


def lay_out(job: JobFolder, case: dict[str, Any]) -> None:
    """The files, variables and hardware that a case describes."""
    given = case["input"]
    for name in ("resourceconfig", "hyperparameters", "inputdataconfig"):
        if f"{name}.json" in given and f"{name}.json" not in given.get("missing_files", ()):
            job.config(name, given[f"{name}.json"])
    if "hyperparameters.json" not in given:
        lay_out_short_form(job, given)
    facts = given.get("host_facts", {})
    job.env(DLC_NUM_GPUS=str(facts.get("num_gpus", 0)), DLC_NUM_NEURONS=str(facts.get("num_neurons", 0)))
    if case["expect"].get("set_env", {}).get("FI_PROVIDER") or "FI_PROVIDER=efa" in case["expect"].get("cmd", ()):
        job.env(DLC_EFA="1")
    job.env(**given.get("container_env", {}))
    job.code(given.get("code_dir", ()))


def lay_out_short_form(job: JobFolder, given: dict[str, Any]) -> None:
    """Some cases name hosts and hyperparameters directly."""
    names = given.get("hosts", ["algo-1"])
    job.config("resourceconfig", {"hosts": names, "current_host": given.get("current_host", names[0])})
    flags = {name: json.dumps(value) for name, value in given.items() if name.startswith("sagemaker_")}
    job.config("hyperparameters", {"sagemaker_program": "train.py", **given.get("hyperparameters", {}), **flags})
    if "TRAINING_JOB_NAME" in given:
        job.env(TRAINING_JOB_NAME=given["TRAINING_JOB_NAME"])
    if "SM_FRAMEWORK_PARAMS" in given:
        parameters = json.loads(given["SM_FRAMEWORK_PARAMS"])
        job.hyperparameters(**parameters)
    if "x" in given.get("hyperparameters", {}):  # v3-args
        job.env(DLC_ARGV_DIALECT="sdk3", SAGEMAKER_PROGRAM="train.py")
        job.config("hyperparameters", given["hyperparameters"])
