"""Jobs that `dlc submit --to slurm` hands to a real Slurm of two nodes: they end well, fail, and are stopped."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlc.core.process import Completed
from harness.oci_bundle import make_bundle_of_this_machine
from harness.slurm import NODES, Slurm, can_run

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "scripts"
LAUNCHER = [sys.executable, "-I", "-S", str(ROOT / "src/entrypoint/launcher.py")]
SECRET = "secret of this test"
# Only a hang takes that long; Slurm itself waits for 20 s before it kills.
WAIT_SECONDS = 600.0
TRAIN = """
import json, os, pathlib
out = pathlib.Path(os.environ["SM_MODEL_DIR"], os.environ["SM_CURRENT_HOST"])
channel = pathlib.Path(os.environ["SM_CHANNEL_TRAINING"], "rows").read_text()
hosts = sorted(json.loads(os.environ["SM_HOSTS"]))
group = os.environ.get("SM_CURRENT_INSTANCE_GROUP")
out.write_text(json.dumps([hosts, group, channel, os.environ["GREETING"], len(os.environ["SHY"])]))
print("trained on", os.environ["SM_CURRENT_HOST"], flush=True)
"""
FAIL = "import os, sys; sys.exit(7 if os.environ['SM_CURRENT_HOST'] == 'n2' else __import__('time').sleep(600))"
# Saves before the time limit, and goes on from what it finds.
AGAIN = """
import os, pathlib, signal, sys, time
base = pathlib.Path(os.environ["SM_MODEL_DIR"]).parent
saved = base / "checkpoints" / os.environ["SM_CURRENT_HOST"]
if saved.exists():
    pathlib.Path(os.environ["SM_MODEL_DIR"], os.environ["SM_CURRENT_HOST"]).write_text(saved.read_text())
    sys.exit(0)
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
print("training", os.environ["SM_CURRENT_HOST"], flush=True)
while not asked:
    time.sleep(0.05)
saved.write_text("3")
sys.exit(143)
"""
# Saves when it is asked to stop, and says how often it was asked.
SAVE = """
import os, pathlib, signal, sys, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(time.monotonic()))
print("training", os.environ["SM_CURRENT_HOST"], flush=True)
while not asked:
    time.sleep(0.05)
time.sleep(2)
pathlib.Path(os.environ["SM_MODEL_DIR"], os.environ["SM_CURRENT_HOST"]).write_text(str(len(asked)))
sys.exit(143)
"""


# The same, and says that all is well.
SAVE_WELL = SAVE.replace("sys.exit(143)", "sys.exit(0)")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    if reason := can_run():
        pytest.skip(f"no Slurm can be started: {reason}")
    with Slurm(tmp_path_factory.mktemp("slurm"), Path.home() / ".cache/dlc/slurm") as running:
        for node in NODES:
            (running.node_ml(node) / "venv/bin").mkdir(parents=True)
            (running.node_ml(node) / "venv/bin/python").symlink_to(sys.executable)
        yield running


class Submitted:
    """A job's file in a folder, and `dlc` on Slurm's login node."""

    def __init__(self, slurm: Slurm, folder: Path, script: str, **more: object) -> None:
        self._slurm, self.folder = slurm, folder
        (folder / "data").mkdir()
        (folder / "data/rows").write_text("1 2 3")
        (folder / "train.py").write_text(script)
        spec = {
            "image": "registry.example/dlc/pytorch:2.13",
            "name": "digits",
            "script": "train.py",
            "distributed": "tensorflow",
            "hosts": "2",
            "channels": {"training": "data"},
            "environment": {
                "GREETING": "two words",
                "SHY": {"from": "environment"},
                "DLC_VENV": f"{slurm.opt_ml}/venv",
                "DLC_RUN_DIR": f"{slurm.opt_ml}/run",
                "DLC_PEER_TIMEOUT": "60",
            },
            "places": {"slurm": {"container": "none", "launcher": LAUNCHER}},
            **more,
        }
        # JSON is YAML.
        (folder / "job.yml").write_text(json.dumps(spec))
        self.environ = {
            "SHY": SECRET,
            "DLC_CACHE_DIR": str(folder / "cache"),
        }

    def _words(self, words: tuple[str, ...]) -> tuple[str, ...]:
        return ("env", "-C", str(self.folder), sys.executable, "-P", "-m", "dlc", *words)

    def dlc(self, *words: str) -> Completed:
        return self._slurm.command(*self._words(words), env=self.environ, seconds=WAIT_SECONDS)

    def start(self, *words: str) -> subprocess.Popen[str]:
        return self._slurm.start(*self._words(words), env=self.environ)

    def model(self) -> dict[str, list[object]]:
        return {path.name: json.loads(path.read_text()) for path in (self.folder / "dlc-jobs/digits/model").iterdir()}


def wait_for_lines(log: Path, begin: str) -> None:
    """Return when every node has written such a line."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not log.exists() or log.read_text().count(begin) < len(NODES):
        assert time.monotonic() < deadline, log.read_text() if log.exists() else "no log"
        time.sleep(0.1)


def test_a_job_of_two_nodes_ends_well_and_its_results_are_at_hand(slurm: Slurm, tmp_path: Path) -> None:
    job = Submitted(slurm, tmp_path, TRAIN)
    done = job.dlc("submit", "job.yml", "--to", "slurm", "--wait")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "trained on n1" in done.stdout
    assert "trained on n2" in done.stdout
    shown = [["n1", "n2"], "homogeneousCluster", "1 2 3", "two words", len(SECRET)]
    assert job.model() == {"n1": shown, "n2": shown}
    assert SECRET not in (tmp_path / "dlc-jobs/digits/job.sbatch").read_text()


def test_groups_are_components_with_their_own_names(slurm: Slurm, tmp_path: Path) -> None:
    groups = {"data_group": {"hosts": "1", "cpus": "0.5"}, "dnn_group": {"hosts": "1", "cpus": "2"}}
    job = Submitted(slurm, tmp_path, TRAIN, groups=groups)
    done = job.dlc("submit", "job.yml", "--to", "slurm", "--wait", "--with", "groups.data_group.nodelist=n2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {name: told[1] for name, told in job.model().items()} == {"n2": "data_group", "n1": "dnn_group"}


def test_groups_in_oci_containers_know_their_own_nodes(slurm: Slurm, tmp_path: Path) -> None:
    if reason := can_run("runc"):
        pytest.skip(f"no container can be started: {reason}")
    own = (Path(sys.base_prefix), Path(sys.prefix), ROOT, slurm.folder, tmp_path)
    mounts = {**{path: str(path) for path in own}, slurm.folder / "hosts": "/etc/hosts"}
    bundle = make_bundle_of_this_machine(tmp_path / "bundle", mounts)
    groups = {"data_group": {"hosts": "1"}, "dnn_group": {"hosts": "1"}}
    oci = {"container": "oci", "bundle": str(bundle), "launcher": LAUNCHER}
    job = Submitted(slurm, tmp_path, TRAIN, groups=groups, places={"slurm": oci})
    done = job.dlc("submit", "job.yml", "--to", "slurm", "--wait")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {name: (told[0], told[1]) for name, told in job.model().items()} == {
        "n1": (["n1", "n2"], "data_group"), "n2": (["n1", "n2"], "dnn_group"),
    }  # fmt: skip


def test_a_failure_on_one_node_is_the_jobs_code(slurm: Slurm, tmp_path: Path) -> None:
    done = Submitted(slurm, tmp_path, FAIL).dlc("submit", "job.yml", "--to", "slurm", "--wait")
    assert done.returncode == 7, done.stdout + done.stderr


def test_a_stopped_job_has_saved_on_both_nodes(slurm: Slurm, tmp_path: Path) -> None:
    job = Submitted(slurm, tmp_path, SAVE)
    sent = job.dlc("submit", "job.yml", "--to", "slurm")
    assert sent.returncode == 0, sent.stderr
    log = tmp_path / "dlc-jobs/digits/log"
    wait_for_lines(log, "training n")
    running = job.dlc("ps", "--to", "slurm")
    assert sent.stdout.strip() in running.stdout
    assert "digits" in running.stdout
    assert job.dlc("stop", "digits").returncode == 0
    followed = job.dlc("logs", "digits", "-f")
    assert followed.returncode == 0, followed.stderr
    assert job.model() == {"n1": 1, "n2": 1}, followed.stdout


def test_a_stopped_job_that_saved_and_ended_with_0_is_no_success_for_who_waits_or_follows(
    slurm: Slurm, tmp_path: Path
) -> None:
    job = Submitted(slurm, tmp_path, SAVE_WELL)
    sent = job.dlc("submit", "job.yml", "--to", "slurm")
    assert sent.returncode == 0, sent.stderr
    number = sent.stdout.strip()
    after = (f"--dependency=afterok:{number}", "--output=/dev/null", "--wrap", "true")
    follower = slurm.command("sbatch", "--parsable", *after).stdout.strip()
    wait_for_lines(tmp_path / "dlc-jobs/digits/log", "training n")
    # As the time limit does, for both steps alone: Slurm calls the job complete if its script ends with 0.
    assert slurm.command("scancel", "--signal=TERM", number).returncode == 0
    followed = job.dlc("logs", "digits", "-f")
    assert job.model() == {"n1": 1, "n2": 1}, followed.stdout
    assert client_code(slurm, number) == 143
    assert "JobState=FAILED" in slurm.command("scontrol", "show", "job", number).stdout
    waits = slurm.command("squeue", "--noheader", "--jobs", follower, "--format", "%T %r").stdout.split()
    assert waits[:1] == ["PENDING"]
    slurm.command("scancel", follower)


def client_code(slurm: Slurm, number: str) -> int:
    """The code that `dlc submit --wait` ends with."""
    program = "import sys; from dlc.places import slurm; sys.exit(slurm.wait_for_job(sys.argv[1], slurm.OPTIONS()))"
    return slurm.command(sys.executable, "-P", "-c", program, number, seconds=WAIT_SECONDS).returncode


def test_a_job_that_was_cancelled_before_it_began_is_no_success_and_says_why_it_waited(
    slurm: Slurm, tmp_path: Path
) -> None:
    job = Submitted(slurm, tmp_path, TRAIN)
    waiting = job.start("submit", "job.yml", "--to", "slurm", "--wait", "--with", "extra=[--begin=now+1hour]")
    said = ""
    assert waiting.stdout is not None
    while "BeginTime" not in said and (line := waiting.stdout.readline()):
        said += line
    assert job.dlc("stop", "digits").returncode == 0
    rest, _ = waiting.communicate(timeout=WAIT_SECONDS)
    assert waiting.returncode == 143, said + rest
    assert "Slurm says CANCELLED" in rest
    assert not (tmp_path / "dlc-jobs/digits/model").exists()


@pytest.mark.parametrize(
    "groups", [{}, {"data_group": {"hosts": "1"}, "dnn_group": {"hosts": "1"}}], ids=["one", "two"]
)
def test_a_job_whose_node_is_lost_is_no_success(slurm: Slurm, tmp_path: Path, groups: dict[str, object]) -> None:
    job = Submitted(slurm, tmp_path, SAVE_WELL, groups=groups)
    waiting = job.start("submit", "job.yml", "--to", "slurm", "--wait")
    wait_for_lines(tmp_path / "dlc-jobs/digits/log", "training n")
    try:
        assert slurm.command("scontrol", "update", "nodename=n2", "state=down", "reason=test").returncode == 0
        said, _ = waiting.communicate(timeout=WAIT_SECONDS)
    finally:
        slurm.command("scontrol", "update", "nodename=n2", "state=resume")
    assert waiting.returncode not in (0, None), said
    assert "Slurm says NODE_FAIL" in said


def test_results_that_cannot_be_collected_are_no_success(slurm: Slurm, tmp_path: Path) -> None:
    """The model of one host is a file, and that of the other a folder of the same name."""
    clash = "import os, pathlib; model = pathlib.Path(os.environ['SM_MODEL_DIR'], 'net')\n"
    clash += "model.mkdir() if os.environ['SM_CURRENT_HOST'] == 'n1' else model.touch()\n"
    done = Submitted(slurm, tmp_path, clash).dlc("submit", "job.yml", "--to", "slurm", "--wait")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "dlc: not all results are in" in done.stdout
    assert "/hosts/n1/model" in done.stdout


def test_a_job_for_a_machine_that_no_node_is_goes_nowhere(slurm: Slurm, tmp_path: Path) -> None:
    job = Submitted(slurm, tmp_path, TRAIN, resources={"instance_type": "ml.p5.48xlarge"})
    done = job.dlc("submit", "job.yml", "--to", "slurm", "--wait")
    assert done.returncode == 25, done.stdout + done.stderr
    assert "Invalid feature specification" in done.stderr
    assert not (tmp_path / "dlc-jobs").exists()


def test_a_bundle_that_is_not_there_is_named(slurm: Slurm, tmp_path: Path) -> None:
    if reason := can_run("runc"):
        pytest.skip(f"no container can be started: {reason}")
    oci = {"container": "oci", "bundle": "/nope", "launcher": LAUNCHER}
    done = Submitted(slurm, tmp_path, TRAIN, places={"slurm": oci}).dlc("submit", "job.yml", "--to", "slurm", "--wait")
    assert done.returncode == 78, done.stdout + done.stderr
    assert "dlc: places.slurm.bundle: expected /nope/config.json on n" in done.stdout


@pytest.mark.long
def test_a_job_that_its_time_limit_cuts_is_no_success(slurm: Slurm, tmp_path: Path) -> None:
    """SIGTERM comes 30 s before the limit: the script saves and ends with 0."""
    job = Submitted(slurm, tmp_path, SAVE_WELL)
    done = job.dlc("submit", "job.yml", "--to", "slurm", "--wait", "--with", "time=1")
    assert done.returncode == 143, done.stdout + done.stderr
    assert job.model() == {"n1": 1, "n2": 1}


@pytest.mark.long
def test_a_job_whose_nodes_another_one_takes_is_no_success(slurm: Slurm, tmp_path: Path) -> None:
    job = Submitted(slurm, tmp_path, SAVE_WELL)
    waiting = job.start("submit", "job.yml", "--to", "slurm", "--wait", "--with", "partition=spot")
    wait_for_lines(tmp_path / "dlc-jobs/digits/log", "training n")
    taken = slurm.command("srun", "-p", "urgent", "-N2", "--cpus-per-task=4", "sleep", "1", seconds=WAIT_SECONDS)
    assert taken.returncode == 0, taken.stderr
    said, _ = waiting.communicate(timeout=WAIT_SECONDS)
    assert waiting.returncode == 143, said


@pytest.mark.long
def test_a_job_starts_again_after_its_time_limit_and_finds_what_it_saved(slurm: Slurm, tmp_path: Path) -> None:
    """The signal that Slurm sends before the limit is sent here."""
    job = Submitted(slurm, tmp_path, AGAIN)
    sent = job.dlc("submit", "job.yml", "--to", "slurm", "--with", "requeue=yes")
    wait_for_lines(tmp_path / "dlc-jobs/digits/log", "training n")
    assert slurm.command("scancel", "--signal=USR1", "--batch", sent.stdout.strip()).returncode == 0
    followed = job.dlc("logs", "digits", "-f")
    assert job.model() == {"n1": 3, "n2": 3}, followed.stdout
    told = slurm.command("scontrol", "show", "job", sent.stdout.strip()).stdout
    assert "JobState=COMPLETED" in told
    assert "Restarts=1" in told


@pytest.mark.long
def test_a_job_whose_nodes_are_taken_away_saves_and_goes_on_from_the_saved_step(slurm: Slurm, tmp_path: Path) -> None:
    """As a spot notice does: SIGTERM a grace before the nodes are gone. Another job takes them meanwhile."""
    script = (SCRIPTS / "resume_by_steps.py").read_text()
    job = Submitted(slurm, tmp_path, script)
    sent = job.dlc("submit", "job.yml", "--to", "slurm", "--with", "requeue=yes", "--with", "partition=spot")
    assert sent.returncode == 0, sent.stderr
    log = tmp_path / "dlc-jobs/digits/log"
    wait_for_lines(log, " trains\n")
    taken = slurm.command("srun", "-p", "urgent", "-N2", "--cpus-per-task=4", "sleep", "1", seconds=WAIT_SECONDS)
    assert taken.returncode == 0, taken.stderr
    followed = job.dlc("logs", "digits", "-f")
    begun_and_ended = job.model()
    assert sorted(begun_and_ended) == list(NODES), followed.stdout
    for begun, ended in begun_and_ended.values():
        assert begun > 0
        assert ended == begun + 5
    told = slurm.command("scontrol", "show", "job", sent.stdout.strip()).stdout
    assert "JobState=COMPLETED" in told
    assert "Restarts=1" in told
