"""Jobs on a real Slurm of two nodes: the launcher finds its hosts, ends with them, and refuses to train alone."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.oci_bundle import make_bundle_of_this_machine
from harness.slurm import NODES, Slurm, can_run

LAUNCHER = str(Path("src/entrypoint/launcher.py").resolve())
SCRIPTS = Path(__file__).parent / "scripts"
WAIT_SECONDS = 180.0  # only a hang takes that long; Slurm itself waits for 20 s before it kills


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    if reason := can_run():
        pytest.skip(f"no Slurm can be started: {reason}")
    cache = Path.home() / ".cache/dlc/slurm"
    with Slurm(tmp_path_factory.mktemp("slurm"), cache) as running:
        yield running


class Job:
    """A job of one script, its /opt/ml on each node, and how the launcher is started."""

    def __init__(self, slurm: Slurm, script: str | Path, **environ: str) -> None:
        self._slurm = slurm
        for node in NODES:
            ml = slurm.node_ml(node)
            for old in ml.iterdir():
                shutil.rmtree(old)
            (ml / "code").mkdir()
            text = script.read_text() if isinstance(script, Path) else script
            (ml / "code/train.py").write_text(text)
            (ml / "venv/bin").mkdir(parents=True)
            (ml / "venv/bin/python").symlink_to(sys.executable)
        self.environ = {
            "SAGEMAKER_BASE_DIR": str(slurm.opt_ml),
            "SAGEMAKER_PROGRAM": "train.py",
            "DLC_VENV": f"{slurm.opt_ml}/venv",
            "DLC_RUN_DIR": f"{slurm.opt_ml}/run",
            "DLC_PEER_TIMEOUT": "60",
            "DLC_JOB_TOKEN": "of this test",
            **environ,
        }
        self.command = (sys.executable, "-I", "-S", LAUNCHER, "train")

    def srun(self, *options: str) -> tuple[int, str]:
        """(exit code, all that both nodes printed) of the launcher in a step with these options."""
        done = self._slurm.srun(*options, *self.command, env=self.environ)
        return done.returncode, done.stdout + done.stderr

    def failure(self, node: str) -> str:
        path = self._slurm.node_ml(node) / "output/failure"
        return path.read_text() if path.exists() else ""


def test_two_nodes_train_as_one_job(slurm: Slurm) -> None:
    job = Job(slurm, SCRIPTS / "sum_of_ranks.py", DLC_STRATEGY="tf_multi_worker")
    code, said = job.srun("-N2", "--ntasks-per-node=1")
    assert code == 0, said
    assert "node n1 is n1, rank 0 of 2: 3" in said
    assert "node n2 is n2, rank 1 of 2: 2" in said


def test_two_nodes_train_as_one_job_in_oci_containers(slurm: Slurm, tmp_path: Path) -> None:
    """Slurm 22.05 gives an OCI container no variable of its task, so the command says which node it is on.

    The bundle mounts what every node has at the same place, of which /opt/ml is another folder on each.
    """
    if reason := can_run("runc"):
        pytest.skip(f"no container can be started: {reason}")
    own = (Path(sys.base_prefix), Path(sys.prefix), Path.cwd(), slurm.folder)
    mounts = {**{path: str(path) for path in own}, slurm.folder / "hosts": "/etc/hosts"}
    bundle = make_bundle_of_this_machine(tmp_path / "bundle", mounts)
    job = Job(slurm, SCRIPTS / "sum_of_ranks.py", DLC_STRATEGY="tf_multi_worker")
    told = ("sh", "-c", 'SLURMD_NODENAME=$(uname -n) exec "$@"', "sh")
    code, said = job.srun("-N2", "--ntasks-per-node=1", f"--container={bundle}", *told)
    assert code == 0, said
    assert "node n1 is n1, rank 0 of 2: 3" in said
    assert "node n2 is n2, rank 1 of 2: 2" in said


def test_a_heterogeneous_job_whose_nodes_are_out_of_order_knows_which_is_which(slurm: Slurm) -> None:
    job = Job(slurm, SCRIPTS / "sum_of_ranks.py", DLC_STRATEGY="tf_multi_worker")
    code, said = job.srun("-w", "n2", "-n1", *job.command, ":", "-w", "n1", "-n1")
    assert code == 0, said
    assert "node n2 is n2, rank 0 of 2: 3" in said
    assert "node n1 is n1, rank 1 of 2: 2" in said


def test_the_components_of_a_heterogeneous_job_are_groups(slurm: Slurm, tmp_path: Path) -> None:
    script = f"""
import os, pathlib, time
told = pathlib.Path({str(tmp_path / "told")!r})
print(os.environ["SM_CURRENT_HOST"], os.environ["SM_CURRENT_INSTANCE_GROUP"], flush=True)
if os.environ["SM_CURRENT_HOST"] == "n2":
    told.touch()
while not told.exists():  # the other host ends with the distributed group
    time.sleep(0.1)
"""
    job = Job(slurm, script)
    job.environ["DLC_STRATEGY"] = "tf_multi_worker"
    for node in NODES:
        config = slurm.node_ml(node) / "input/config"
        config.mkdir(parents=True)
        groups = {"sagemaker_distribution_instance_groups": json.dumps(["group-1"])}
        (config / "hyperparameters.json").write_text(json.dumps(groups))
    code, said = job.srun("-w", "n2", "-n1", *job.command, ":", "-w", "n1", "-n1")
    assert code == 0, said
    assert "n2 group-0" in said
    assert "n1 group-1" in said
    assert "one plain process (the distributed group is n1)" in said


def test_with_a_task_for_each_gpu_every_task_is_a_rank(slurm: Slurm) -> None:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "SM_CURRENT_HOST")
    code, said = Job(slurm, f"import os; print('rank', *map(os.environ.get, {names}))").srun(
        "-N2", "--ntasks-per-node=2"
    )
    assert code == 0, said
    ranks = sorted(line for line in said.splitlines() if line.startswith("rank"))
    assert ranks == ["rank 0 4 0 n1 n1", "rank 1 4 1 n1 n1", "rank 2 4 0 n1 n2", "rank 3 4 1 n1 n2"]


def test_an_exit_code_on_one_node_is_the_jobs(slurm: Slurm) -> None:
    words = "import os, sys, time; time.sleep(0 if os.environ['SM_CURRENT_HOST'] == 'n2' else 600); sys.exit(7)"
    job = Job(slurm, words, DLC_STRATEGY="tf_multi_worker")
    code, said = job.srun("-N2", "--ntasks-per-node=1")
    assert code == 7, said
    assert "n2" in job.failure("n1")


def test_scancel_ends_the_job_on_both_nodes(slurm: Slurm) -> None:
    job = Job(slurm, "import time; print('training', flush=True); time.sleep(600)", DLC_STRATEGY="tf_multi_worker")
    step = slurm.start("srun", "-N2", "--ntasks-per-node=1", *job.command, env=job.environ)
    assert step.stdout is not None
    seen = ""
    while seen.count("training\n") < 2:
        line = step.stdout.readline()
        assert line, seen
        seen += line
    number = slurm.command("squeue", "-h", "--states=R", "-o", "%i").stdout.strip()
    assert slurm.command("scancel", number).returncode == 0
    step.communicate(timeout=WAIT_SECONDS)
    assert step.returncode != 0
    deadline = time.monotonic() + WAIT_SECONDS
    while left := [line for node in NODES for line in slurm.processes(node)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def test_an_allocation_without_a_step_is_refused(slurm: Slurm) -> None:
    job = Job(slurm, "print('trained alone')")
    environ = {**job.environ, "SAGEMAKER_BASE_DIR": str(slurm.node_ml("n1"))}
    done = slurm.command("salloc", "-N2", *job.command, env=environ)
    assert done.returncode == 78
    assert "an allocation of 2 nodes, but no step on them" in done.stderr
    assert "srun --ntasks-per-node=1" in done.stderr
    assert "trained alone" not in done.stdout


def test_a_step_whose_container_was_not_told_its_task_is_refused(slurm: Slurm) -> None:
    job = Job(slurm, "print('trained alone')")
    own = ("SLURMD_NODENAME", "SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID")
    unset = [word for name in own for word in ("-u", name)]
    done = slurm.srun("-N2", "--ntasks-per-node=1", "env", *unset, *job.command, env=job.environ)
    assert done.returncode == 78
    assert "each would train alone" in done.stderr
    assert "trained alone" not in done.stdout
