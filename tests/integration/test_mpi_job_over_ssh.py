"""Kubeflow's MPIJob: its pods, as the mpi-operator starts them, on a network. mpirun reaches the workers over ssh.

Commands, variables, host file and secret are those of the operator's controller (v2beta1); the secret's folder is as
kubelet makes it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import pytest

from harness.engine import CALM_OPTIONS, HANG_BOUND, RUN_LABEL, docker
from harness.images import Image

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="pytorch")]

SCRIPTS = Path(__file__).parent / "scripts"
SLOTS = 2
WORKERS = ("job-worker-0", "job-worker-1")
LAUNCHER = "job-launcher"
START_SSHD = ("/usr/sbin/sshd", "-De")
OF_THE_LAUNCHER = {
    "K_MPI_JOB_ROLE": "launcher",
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    "OMPI_MCA_orte_set_default_slots": str(SLOTS),
    "NVIDIA_VISIBLE_DEVICES": "",
    "NVIDIA_DRIVER_CAPABILITIES": "",
}
UNKNOWN_HOST, UNKNOWN_USER = "Host key verification failed", "Permission denied (publickey)"


class MpiJob:
    """The pods of one MPIJob; gone after the `with`."""

    def __init__(self, image: Image, folder: Path) -> None:
        self._image, self._folder = image, folder
        self._network = f"dlc-test-{time.monotonic_ns():x}"
        self._started: list[str] = []
        (folder / "mpi").mkdir()
        lines = [f"{worker}.job.default.svc slots={SLOTS}\n" for worker in WORKERS]
        (folder / "mpi" / "hostfile").write_text("".join(lines))

    def __enter__(self) -> Self:
        docker("network", "create", "--label", RUN_LABEL, self._network)
        return self

    def __exit__(self, *_: object) -> None:
        for pod in self._started:
            docker("rm", "--force", "--volumes", self._name(pod), check=False)
        deadline = time.monotonic() + HANG_BOUND
        while docker("network", "rm", self._network, check=False).returncode and time.monotonic() < deadline:
            time.sleep(1)

    def make_secret(self, name: str) -> Path:
        """A secret as the controller makes it, and its folder as kubelet mounts it: for everyone to write to."""
        folder = self._folder / name
        mounted = folder / "..2026_11_28"
        mounted.mkdir(parents=True)
        make_key = (
            "umask 077; ssh-keygen -q -t ecdsa -b 521 -m PEM -N '' -C '' -f id_rsa && cp id_rsa.pub authorized_keys"
        )
        words = ["run", "--rm", "--label", RUN_LABEL, "--entrypoint", "sh", "--volume", f"{mounted}:/key"]
        docker(*words, "--workdir", "/key", self._image.ref, "-c", make_key)
        (folder / "..data").symlink_to(mounted.name)
        for key in ("id_rsa", "id_rsa.pub", "authorized_keys"):
            (folder / key).symlink_to(f"..data/{key}")
        folder.chmod(0o1777)
        return folder

    def start_workers(self, secret: Path, workers: Sequence[str] = WORKERS) -> None:
        """Start the pods that wait for mpirun."""
        for worker in workers:
            self._start(worker, secret, {"K_MPI_JOB_ROLE": "worker"}, START_SSHD)

    def start_launcher(
        self, secret: Path, script: str, command: Sequence[str] = (), more: Mapping[str, str] | None = None
    ) -> None:
        """Start the pod with mpirun: our launcher, with the operator's variables, or a command of the user."""
        own = {**OF_THE_LAUNCHER, "SAGEMAKER_PROGRAM": script, **(more or {})}
        self._start(LAUNCHER, secret, own, command, ("--volume", f"{self._folder / 'mpi'}:/etc/mpi:ro"))

    def run(self, secret: Path, script: str, command: Sequence[str] = ()) -> tuple[int, str]:
        """Exit code and log of the launcher's pod, once it has ended."""
        self.start_launcher(secret, script, command)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        """Exit code and log of the launcher's pod, once it has ended."""
        name = self._name(LAUNCHER)
        code = int(docker("wait", name).stdout)
        return code, self.log(LAUNCHER)

    def stop(self) -> tuple[int, str]:
        """Delete the launcher's pod."""
        docker("stop", "--time", "60", self._name(LAUNCHER))
        return self.wait()

    def log(self, pod: str) -> str:
        """What the pod has said."""
        done = docker("logs", self._name(pod))
        return done.stdout + done.stderr

    def wait_for(self, text: str, pod: str = LAUNCHER) -> None:
        """Return when the pod has said it."""
        deadline = time.monotonic() + HANG_BOUND
        while text not in (log := self.log(pod)):
            assert time.monotonic() < deadline, log
            time.sleep(0.5)

    def run_in(self, pod: str, *command: str) -> tuple[int, str]:
        """Exit code and output of a command in the pod."""
        done = docker("exec", self._name(pod), *command, check=False)
        return done.returncode, done.stdout + done.stderr

    def _start(
        self, pod: str, secret: Path, variables: Mapping[str, str], command: Sequence[str], more: Sequence[str] = ()
    ) -> None:
        words = ["run", "--detach", "--name", self._name(pod), "--label", RUN_LABEL, "--network", self._network]
        words += ["--hostname", pod, "--network-alias", f"{pod}.job.default.svc", *CALM_OPTIONS, *more]
        words += ["--volume", f"{SCRIPTS}:/opt/ml/code:ro", "--volume", f"{secret}:/root/.ssh:ro"]
        for name, value in variables.items():
            words += ["--env", f"{name}={value}"]
        # A pod's `command` takes the place of the image's entrypoint.
        words += ["--entrypoint", command[0]] if command else []
        docker(*words, self._image.ref, *(command[1:] if command else ("train",)))
        self._started.append(pod)

    def _name(self, pod: str) -> str:
        return f"{self._network}-{pod}"


@pytest.fixture
def job(engine: None, image: Image, tmp_path: Path) -> Iterator[MpiJob]:
    with MpiJob(image, tmp_path) as started:
        yield started


def test_ranks_on_all_workers_compute_together_also_if_sshd_comes_late(job: MpiJob) -> None:
    secret = job.make_secret("secret")
    job.start_workers(secret, WORKERS[:1])
    job.start_launcher(secret, "mpi_hosts.py")
    job.wait_for("MPIJob")
    time.sleep(5)  # longer than ssh's ten attempts
    job.start_workers(secret, WORKERS[1:])
    code, log = job.wait()
    assert code == 0, log
    for rank in range(4):
        assert f"rank {rank} of 4 on {WORKERS[rank // SLOTS]}: 6 /opt/ml/model" in log


def test_a_failing_rank_fails_the_job_with_its_code_and_its_reason(job: MpiJob) -> None:
    secret = job.make_secret("secret")
    job.start_workers(secret)
    code, log = job.run(secret, "exit_three.py")
    assert code == 3, log
    assert "ValueError: channel training holds no parquet file" in log


def test_a_stop_of_the_launchers_pod_reaches_the_ranks(job: MpiJob) -> None:
    secret = job.make_secret("secret")
    job.start_workers(secret)
    job.start_launcher(secret, "save_on_sigterm.py", more={"OMPI_MCA_odls_base_sigkill_timeout": "4"})
    job.wait_for("ready to be stopped\n" * 2 * SLOTS)
    code, log = job.stop()
    assert code == 143, log
    for worker in WORKERS:
        assert job.run_in(worker, "cat", "/opt/ml/model/saved-on-signal") == (0, "15"), log


def test_an_mpirun_of_the_user_needs_no_launcher(job: MpiJob) -> None:
    """As in the operator's own examples: `command: [mpirun]` in the launcher's pod."""
    secret = job.make_secret("secret")
    job.start_workers(secret)
    command = ("mpirun", "-n", "4", "-x", "PATH", "python", "/opt/ml/code/mpi_hosts.py")
    code, log = job.run(secret, "", command)
    assert code == 0, log
    assert all(f"rank {rank} of 4 on {WORKERS[rank // SLOTS]}: 6" in log for rank in range(4)), log


def test_a_host_without_the_jobs_key_is_no_host_of_the_job(job: MpiJob) -> None:
    """A stranger who answers for a worker is sent nothing, and one who comes to a worker is let in nowhere."""
    secret, strange = job.make_secret("secret"), job.make_secret("strange")
    job.start_workers(secret, WORKERS[:1])
    job.start_workers(strange, WORKERS[1:])
    code, log = job.run(secret, "mpi_hosts.py")
    assert code != 0
    assert UNKNOWN_HOST in log
    assert "rank 0 of" not in log
    unchecked = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null")
    code, log = job.run_in(WORKERS[1], "ssh", *unchecked, f"{WORKERS[0]}.job.default.svc", "true")
    assert code == 255
    assert UNKNOWN_USER in log


def test_no_two_starts_of_sshd_have_the_same_key(job: MpiJob, tmp_path: Path) -> None:
    """Without a secret each host makes its own key when it starts."""
    empty = tmp_path / "empty"
    empty.mkdir()
    job.start_workers(empty)
    keys = set()
    for worker in WORKERS:
        job.wait_for("Server listening", worker)
        code, key = job.run_in(worker, "cat", "/etc/ssh/ssh_host_ed25519_key.pub")
        assert code == 0, key
        keys.add(key)
    assert len(keys) == 2
