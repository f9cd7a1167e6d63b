"""The lines of shell in task files of SkyPilot and dstack: two hosts that run them are one job for the launcher."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from dlc.core.checkout import find_root
from dlc.core.process import run_program
from dlc.job.job_spec import JobSpec
from dlc.places import dstack, skypilot
from dlc.places.task_files import LAUNCHER
from harness.job_spec import group_of, spec_of

VARIABLES = {skypilot: ("SKYPILOT_NODE_IPS", "SKYPILOT_NODE_RANK"), dstack: ("DSTACK_NODES_IPS", "DSTACK_NODE_RANK")}


def render(place: Any, folder: Path) -> str:
    """Return the lines, with a folder in place of /opt/ml, and a launcher that explains what it would start."""
    value = place.render_job(make_job(folder), place.OPTIONS()).value
    return explain(value["commands"] if "commands" in value else value["run"].splitlines(), folder)


def make_job(folder: Path, **changes: Any) -> JobSpec:
    plain = {"groups": [group_of("homogeneousCluster", 2)], "distributed": "torchrun"}
    words = {"hyperparameters": {"text": "it's $HOME"}, "arguments": ("--epochs", "3")}
    return spec_of(folder / "train.py", **{**plain, **words, **changes})


def explain(lines: list[str], folder: Path) -> str:
    launcher = shlex.join([sys.executable, str(find_root() / "src/entrypoint/launcher.py"), "--explain=json", "train"])
    text = "\n".join(lines)
    assert text.count(shlex.join(LAUNCHER)) == 1
    return text.replace(shlex.join(LAUNCHER), launcher).replace("/opt/ml", str(folder))


@pytest.mark.parametrize("place", [skypilot, dstack], ids=["skypilot", "dstack"])
@pytest.mark.parametrize(("addresses", "rank"), [("10.0.0.1\n10.0.0.2", 1), ("10.0.0.1", 0)], ids=["two", "alone"])
def test_the_launcher_finds_its_hosts_and_its_hyperparameters(
    place: Any, addresses: str, rank: int, tmp_path: Path
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code/train.py").write_text("print('training')\n")
    of_addresses, of_rank = VARIABLES[place]
    environment = {
        "PATH": "/usr/bin:/bin", "SAGEMAKER_BASE_DIR": str(tmp_path), of_addresses: addresses, of_rank: str(rank),
        "DLC_NUM_GPUS": "0",
    }  # fmt: skip
    done = run_program(["sh", "-eu", "-c", render(place, tmp_path)], env=environment, timeout=60.0, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    hosts = addresses.splitlines()
    assert found["cluster"]["hosts"] == hosts
    assert found["cluster"]["current_host"] == hosts[rank]
    assert json.loads((tmp_path / "input/config/hyperparameters.json").read_text())["text"] == "it's $HOME"
    words = [word for process in found["processes"] for word in process["argv"]]
    assert words[-2:] == ["--epochs", "3"]


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("place", [skypilot, dstack], ids=["skypilot", "dstack"])
def test_the_launcher_finds_its_group_on_each_host(place: Any, rank: int, tmp_path: Path) -> None:
    """SkyPilot numbers the hosts of a task, dstack those of all groups."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code/train.py").write_text("print('training')\n")
    groups = (group_of("data_group", 2), group_of("dnn_group", 1))
    value = place.render_job(make_job(tmp_path, groups=groups), place.OPTIONS()).value
    index = 1 if rank == 2 else 0
    lines = value["groups"][index]["commands"] if place is dstack else value[1 + index]["run"].splitlines()
    of_addresses, of_rank = VARIABLES[place]
    environment = {
        "PATH": "/usr/bin:/bin", "SAGEMAKER_BASE_DIR": str(tmp_path), of_addresses: "10.0.0.1\n10.0.0.2\n10.0.0.3",
        of_rank: str(rank if place is dstack else rank - 2 * index), "DLC_NUM_GPUS": "0",
    }  # fmt: skip
    done = run_program(["sh", "-eu", "-c", explain(lines, tmp_path)], env=environment, timeout=60.0, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    cluster = json.loads(done.stdout)["cluster"]
    named = ["data-group-0.digits", "data-group-1.digits", "dnn-group-0.digits"]
    hosts = ["10.0.0.1", "10.0.0.2", "10.0.0.3"] if place is dstack else named
    assert cluster["current_host"] == hosts[rank]
    assert sorted(cluster["hosts"]) == sorted(hosts)
