"""`dlc submit` beside stand-ins of Slurm's programs: what they say is passed on, and nothing is left of what failed."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.pages import find_blocks

SOURCES = Path(__file__).parents[3] / "src"
# Only a hang takes that long.
WAIT_SECONDS = 600.0
JOB = """\
image: registry.example/dlc/pytorch:2.13
name: digits
script: train.py
environment: {HF_TOKEN: {from: environment}}
"""
SBATCH = """\
for file in "$@"; do :; done
cp "$file" ../sent
printf "%s %s" "$HF_TOKEN" "${#DLC_JOB_TOKEN}" >../env
echo 4711
"""
SQUEUE = 'case "$*" in *--me*) echo "4711|digits|RUNNING|2026-11-28T10:00:00|2|None";; *) echo "COMPLETED|None";; esac'


class Login:
    """A node of a cluster, with `dlc` in a folder of a job and stand-ins of Slurm's programs on PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder / "home", folder / "bin"
        self.folder.mkdir()
        self.bin.mkdir()
        (self.folder / "train.py").write_text("print(1)")
        (self.folder / "job.yml").write_text(JOB)
        self.environ = {"PATH": f"{self.bin}:/usr/bin:/bin", "HF_TOKEN": "of the shell",
                        "DLC_CACHE_DIR": str(folder / "cache")}  # fmt: skip

    def add(self, name: str, script: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def dlc(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run([sys.executable, "-P", "-m", "dlc", *words])

    def run(self, words: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=self.folder, env=self.environ, input=text, capture_output=True, text=True, check=False
        )


@pytest.fixture
def login(tmp_path: Path) -> Login:
    return Login(tmp_path)


def test_sbatch_gets_what_the_dry_run_prints_and_the_secrets(login: Login, tmp_path: Path) -> None:
    login.add("sbatch", SBATCH)
    shown = login.dlc("submit", "job.yml", "--to", "slurm", "--dry-run")
    assert not (login.folder / "dlc-jobs").exists()
    done = login.dlc("submit", "job.yml", "--to", "slurm")
    assert (done.returncode, done.stdout) == (0, "4711\n"), done.stderr
    assert (tmp_path / "sent").read_text() == shown.stdout
    assert (tmp_path / "env").read_text() == "of the shell 32"
    assert (login.folder / "dlc-jobs/digits/code/train.py").read_text() == "print(1)"


def test_a_secret_of_the_file_reaches_the_job_and_stands_in_no_other_file(login: Login, tmp_path: Path) -> None:
    path = login.folder / "job.yml"
    path.write_text(path.read_text().replace("{from: environment}", "s3cret-of-the-file"))
    login.add("sbatch", SBATCH)
    shown = login.dlc("submit", "job.yml", "--to", "slurm", "--dry-run")
    done = login.dlc("submit", "job.yml", "--to", "slurm")
    assert (tmp_path / "env").read_text() == "s3cret-of-the-file 32"
    for text in (shown.stdout, shown.stderr, done.stdout, done.stderr, (tmp_path / "sent").read_text()):
        assert "s3cret-of-the-file" not in text


def test_to_this_machine_is_dlc_run(login: Login) -> None:
    # `--explain` starts nothing; an image of no recipe is refused by both alike.
    words = (("submit", "job.yml", "--to", "local", "--dry-run"), ("run", "job.yml", "--explain"))
    submitted, run = (login.dlc(*each) for each in words)
    assert (submitted.returncode, submitted.stdout, submitted.stderr) == (run.returncode, run.stdout, run.stderr)
    assert "train.py" in run.stdout + run.stderr


def test_what_only_other_places_have_is_refused_here(login: Login) -> None:
    done = login.dlc("submit", "job.yml", "--to", "local", "--with", "partition=gpu")
    assert done.returncode == 2
    assert "partition: expected one of platform, watch, found unknown key 'partition'" in done.stderr


@pytest.mark.parametrize("container", ["pyxis", "apptainer", "none", "oci"])
@pytest.mark.parametrize("groups", ["", "groups: {data: {hosts: 1}, dnn: {hosts: 2}}\n"], ids=["one", "several"])
def test_a_shell_can_read_the_file(login: Login, container: str, groups: str) -> None:
    (login.folder / "job.yml").write_text(JOB + groups)
    words = ["--with", f"container={container}", "--with", "requeue=yes", "--with", "time=10"]
    words += ["--with", "bundle=/bundle"] if container == "oci" else []
    shown = login.dlc("submit", "job.yml", "--to", "slurm", "--dry-run", *words)
    checked = login.run(["bash", "-n"], shown.stdout)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("error: invalid partition specified: gpu", "`sinfo` lists partitions"),
        ("error: Batch job submission failed: Invalid account or account/partition combination specified",
         "`sacctmgr show associations user=$USER` lists accounts"),
        ("error: Batch job submission failed: Invalid qos specification", "`sacctmgr show qos` lists them"),
        ("error: Batch job submission failed: Requested node configuration is not available",
         "fewer CPUs, GPUs or memory for a host"),
        ("error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or "
         "time limits)", "fewer hosts, a shorter time"),
        ("error: Batch job submission failed: Unable to contact slurm controller (connect failure)", "`scontrol ping`"),
        ("error: Unheard of", "`dlc submit --dry-run` prints the file"),
    ],
    ids=["partition", "account", "qos", "nodes", "quota", "controller", "other"],
)  # fmt: skip
def test_nothing_is_left_of_a_job_that_slurm_refuses(login: Login, said: str, remedy: str) -> None:
    login.add("sbatch", f'echo "sbatch: {said}" >&2; exit 1')
    done = login.dlc("submit", "job.yml", "--to", "slurm")
    assert done.returncode == 25
    assert said in done.stderr
    assert remedy in done.stderr
    assert not (login.folder / "dlc-jobs").exists()


def test_ctrl_c_cancels_what_the_controller_has_taken_already(login: Login, tmp_path: Path) -> None:
    own = login.folder / "dlc-jobs/digits/job.sbatch"
    login.add("sbatch", "touch ../hangs; exec sleep 600")
    login.add("squeue", f'printf "%s\\n" "4711|{own}" "4712|/another/job.sbatch" "4713|{own}.old"')
    login.add("scancel", 'echo "$@" >>../cancelled')
    interrupt_submission(login)
    assert (tmp_path / "cancelled").read_text() == "4711\n"


def test_ctrl_c_leaves_no_folder(login: Login) -> None:
    login.add("sbatch", "touch ../hangs; exec sleep 600")
    interrupt_submission(login)


def interrupt_submission(login: Login) -> None:
    """Send SIGINT while sbatch hangs: dlc ends and leaves no folder."""
    words = [sys.executable, "-P", "-m", "dlc", "submit", "job.yml", "--to", "slurm"]
    with subprocess.Popen(words, cwd=login.folder, env=login.environ, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + WAIT_SECONDS
        while not (login.bin.parent / "hangs").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 130
    assert not (login.folder / "dlc-jobs").exists()


def test_a_job_that_cannot_be_noted_is_told_by_its_id(login: Login, tmp_path: Path) -> None:
    login.add("sbatch", SBATCH)
    (tmp_path / "cache").write_text("no folder")
    done = login.dlc("submit", "job.yml", "--to", "slurm")
    assert (done.returncode, done.stdout) == (0, "4711\n"), done.stderr
    assert "dlc: warning: digits has no name here, only 4711 --to slurm" in done.stderr


@pytest.mark.parametrize("place", ["slurm", "kubernetes", "sagemaker"])
def test_a_dry_run_imports_no_platforms_client(login: Login, place: str) -> None:
    program = (
        "import sys; from dlc.cli import run; code = run(sys.argv[1:]); "
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr); sys.exit(code)"
    )
    options = ["role=arn:aws:iam::123456789012:role/Training", "region=eu-west-1", "instance_type=ml.c5.xlarge"]
    options += ["image=123456789012.dkr.ecr.eu-west-1.amazonaws.com/dlc/pytorch:2.13"]
    words = [word for option in options for word in ("--with", option)] if place == "sagemaker" else []
    argv = [sys.executable, "-P", "-c", program, "submit", "job.yml", "--to", place, "--dry-run", *words]
    done = login.run(argv)
    assert done.returncode == 0, done.stderr
    assert {"boto3", "botocore", "kubernetes", "docker"} & set(done.stderr.split()) == set()


def test_without_slurm_or_the_secret_nothing_begins(login: Login) -> None:
    done = login.dlc("submit", "job.yml", "--to", "slurm")
    assert done.returncode == 21
    assert "sbatch: expected Slurm's program on PATH, found none" in done.stderr
    login.add("sbatch", SBATCH)
    del login.environ["HF_TOKEN"]
    done = login.dlc("submit", "job.yml", "--to", "slurm")
    assert done.returncode == 10
    assert "job.yml:4:25: environment.HF_TOKEN: expected HF_TOKEN in this shell's environment" in done.stderr
    assert not (login.folder / "dlc-jobs").exists()


def test_a_folder_of_another_job_is_left_alone(login: Login) -> None:
    login.add("sbatch", SBATCH)
    kept = login.folder / "dlc-jobs/digits/model"
    kept.mkdir(parents=True)
    done = login.dlc("submit", "job.yml", "--to", "slurm")
    assert done.returncode == 1
    assert "expected a folder without the results of another job" in done.stderr
    assert kept.is_dir()


@pytest.mark.parametrize(
    ("told", "code"), [("COMPLETED|0:0", 0), ("FAILED|7:0", 7), ("FAILED|0:15", 143), ("NODE_FAIL|0:0", 69)]
)
def test_who_waits_gets_the_lines_and_the_jobs_code(login: Login, told: str, code: int) -> None:
    login.add("sbatch", f"echo trained >dlc-jobs/digits/log; {SBATCH}")
    login.add("squeue", SQUEUE)
    login.add("scontrol", "exit 1")
    login.add("sacct", f'echo "{told}"')
    done = login.dlc("submit", "job.yml", "--to", "slurm", "--wait")
    assert (done.returncode, done.stdout) == (code, "trained\n"), done.stderr


def test_clean_leaves_the_folder_of_a_job_that_may_still_run(login: Login) -> None:
    login.add("sbatch", f"echo trained >dlc-jobs/$JOB/log; {SBATCH}")
    for name in ("docker", "scontrol"):
        login.add(name, "exit 1")
    login.add("squeue", SQUEUE)
    login.add("sacct", 'echo "COMPLETED|0:0"')
    for name, words in {"waited": ["--wait"], "left": []}.items():
        login.environ["JOB"] = name
        assert login.dlc("submit", "job.yml", "--to", "slurm", "--name", name, *words).returncode == 0
    assert login.dlc("clean", "--jobs", "--yes").returncode == 0
    assert [path.name for path in (login.folder / "dlc-jobs").iterdir()] == ["left"]


def test_ps_logs_and_stop_ask_slurm_for_a_job_that_was_submitted(login: Login, tmp_path: Path) -> None:
    login.add("sbatch", SBATCH)
    login.add("squeue", SQUEUE)
    login.add("scancel", f'echo "$@" >{tmp_path}/cancelled')
    assert login.dlc("submit", "job.yml", "--to", "slurm").returncode == 0
    (login.folder / "dlc-jobs/digits/log").write_text("trained\n")
    assert login.dlc("ps", "--to", "slurm").stdout.split()[-5:] == [
        "4711", "digits", "RUNNING", "2", "2026-11-28T10:00:00",
    ]  # fmt: skip
    for word in ("digits", "4711"):
        assert login.dlc("logs", word).stdout == "trained\n"
    assert login.dlc("stop", "digits").returncode == 0
    assert (tmp_path / "cancelled").read_text() == "4711\n"


def test_the_commands_of_the_page_run(login: Login, tmp_path: Path) -> None:
    """The second one shows what it would start: its containers need an engine."""
    login.add("sbatch", f"for folder in dlc-jobs/*; do echo trained >$folder/log; done; {SBATCH}")
    login.add("squeue", SQUEUE)
    login.add("scontrol", "exit 1")
    login.add("sacct", 'echo "COMPLETED|0:0"')
    login.add("scancel", f'echo "$@" >{tmp_path}/cancelled')
    (login.folder / "job.yml").unlink()
    page = (SOURCES.parent / "docs/clusters.md").read_text()
    commands = [shlex.split(line) for block in find_blocks(page) for line in block.splitlines()]
    verbs = ["run", "run", "submit", "submit", "ps", "logs", "stop"]
    assert [words[:2] for words in commands] == [["dlc", verb] for verb in verbs]
    commands[1].append("--explain")
    said = []
    for words in commands:
        done = login.dlc(*words[1:])
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    _, _, shown, waited, listed, followed, _ = said
    assert "#SBATCH --nodes=2" in shown
    assert "4711" in listed
    assert (waited, followed) == ("trained\n", "trained\n")
    assert (tmp_path / "cancelled").read_text() == "4711\n"
