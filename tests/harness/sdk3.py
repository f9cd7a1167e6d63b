"""Turns a job's folders into what SageMaker's SDK 3.x sends: its own drivers, which start an image past its entrypoint.

The drivers are the real ones, out of the SDK's package.
"""

from __future__ import annotations

import json
import runpy
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from dlc.core.process import run_program
from harness.job import Job

ENTRYPOINT = "/bin/bash"
SCRIPT = "/opt/ml/input/data/sm_drivers/sm_train.sh"
COMMAND = ("-c", f"chmod +x {SCRIPT} && {SCRIPT}")
ENVIRONMENT = {"TRAINING_JOB_NAME": "test"}
# Name and file of a distributed driver, and what the SDK writes for it into distributed.json.
Driver = tuple[str, str, Mapping[str, object]]
TORCHRUN: Driver = ("Torchrun", "torchrun_driver.py", {"process_count_per_node": 1, "smp": None})
# What SDK 3's local mode writes into every resourceconfig.json. No container has it.
INTERFACE = "ethwe"


def mpi(processes: int, *options: str) -> Driver:
    """The driver of `MPI(process_count_per_node=..., mpi_additional_options=...)`."""
    return ("MPI", "mpi_driver.py", {"process_count_per_node": processes, "mpi_additional_options": [*options] or None})


def unpack_package(requirements: Path, folder: Path) -> Path:
    """Install the SDK's package, which the hashed requirements name, into a folder; the path of its `train` module."""
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
    run_program([sys.executable, "-m", "pip", "install", *options, "--target", str(folder), "-r", str(requirements)])
    return folder / "sagemaker" / "train"


def prepare(
    job: Job, package: Path, program: str, hyperparameters: Mapping[str, str], driver: Driver | None = None
) -> None:
    """Rewrite every host's folders; without a driver the SDK starts one plain process on each."""
    for host in job.hosts:
        root = job.opt_ml(host)
        data, config = root / "input" / "data", root / "input" / "config"
        data.mkdir(exist_ok=True)
        (root / "output").mkdir()  # the platform makes it, and the drivers count on that
        (root / "code").rename(data / "code")
        drivers = data / "sm_drivers"
        shutil.copytree(package / "container_drivers", drivers)
        (drivers / "sourcecode.json").write_text(json.dumps({"source_dir": "code", "entry_script": program}))
        (drivers / "distributed.json").write_text(json.dumps(driver[2] if driver else {}))
        (drivers / "sm_train.sh").write_text(_train_script(package, driver), newline="\n")
        (config / "hyperparameters.json").write_text(json.dumps(dict(hyperparameters)))
        resources = json.loads((config / "resourceconfig.json").read_text())
        (config / "resourceconfig.json").write_text(json.dumps({**resources, "network_interface_name": INTERFACE}))
        channels = {name: {"TrainingInputMode": "File"} for name in ("code", "sm_drivers")}
        (config / "inputdataconfig.json").write_text(json.dumps(channels))


def _train_script(package: Path, driver: Driver | None) -> str:
    templates = runpy.run_path(str(package / "templates.py"))
    if driver:
        name, file, _ = driver
        # The misspelt name is the package's own.
        execute = templates["EXEUCTE_DISTRIBUTED_DRIVER"].format(driver_name=name, driver_script=file)
    else:
        execute = templates["EXECUTE_BASIC_SCRIPT_DRIVER"]
    script: str = templates["TRAIN_SCRIPT_TEMPLATE"].format(
        working_dir="cd /opt/ml/input/data/code\n", install_requirements="", execute_driver=execute
    )
    return script
