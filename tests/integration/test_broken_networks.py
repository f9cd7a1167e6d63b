"""Hosts whose network is cut, for ever or for a while: a pair that is cut is named before, a break during is borne."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.engine import HANG_BOUND
from harness.images import Image
from harness.job import Job

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="pytorch")]

SCRIPTS = Path(__file__).parent / "scripts"
TORCHRUN = {"sagemaker_torch_distributed_enabled": True}
GROUP_PORT = "7790"
CONNECTED = f":{int(GROUP_PORT):04X} 01 "  # to that port and established, in /proc/net/tcp
# A rule of iptables stands until no such connection is left. Meanwhile each new one is refused, and ten seconds of that
# mean that the leader's launcher is gone: so nothing here waits for the engine.
RESET = f"""
iptables --wait -A "$@"
while grep -qs "{CONNECTED}" /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done
iptables --wait -D "$@"
"""
CUT_SECONDS = 20.0


def let_only_through(job: Job, host: str, other: str) -> None:
    """What this host sends to any other one, or gets from it, vanishes."""
    for chain, side in (("INPUT", "-s"), ("OUTPUT", "-d")):
        job.firewall(host, "-A", chain, side, job.address(other), "-j", "ACCEPT")
        job.firewall(host, "-A", chain, "-i" if chain == "INPUT" else "-o", "eth0", "-j", "DROP")


@contextmanager
def training(image: Image, folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[Job]:
    """Two hosts, since they have begun to train together."""
    script = SCRIPTS / "sum_until_told.py"
    with Job(image, folder, script, hosts=2, hyperparameters=TORCHRUN, environment=environment) as job:
        job.wait_for_line("step 10 of rank 0")
        yield job


def end(job: Job) -> dict[str, int]:
    """Tell every rank that it is over; the hosts' exit codes."""
    for host in job.hosts:
        (job.opt_ml(host) / "input/end").touch()
    return job.wait()


def wait_for_count(job: Job, host: str, text: str, count: int) -> None:
    """Until the host has said it so many times."""
    deadline = time.monotonic() + HANG_BOUND
    while job.log(host).count(text) < count:
        assert time.monotonic() < deadline, f"{host} has not said {text!r} {count} times"
        time.sleep(0.2)


def forget_connection(job: Job, host: str) -> None:
    """Nothing from the leader's hub comes through any more on the connection that there is; a new one works."""
    for line in job.ask(host, "cat", "/proc/net/tcp", "/proc/net/tcp6").splitlines():
        if CONNECTED in line:
            port = str(int(line.split()[1].rpartition(":")[2], 16))
            job.firewall(host, "-A", "INPUT", "-p", "tcp", "--sport", GROUP_PORT, "--dport", port, "-j", "DROP")
            return
    raise AssertionError(f"{host} is not connected to the hub")


@pytest.mark.parametrize("command", ["train", "--preflight"])
def test_a_pair_of_hosts_that_is_cut_is_named_on_every_host(image: Image, tmp_path: Path, command: str) -> None:
    script = SCRIPTS / "sum_until_told.py"
    late = ("algo-3",)
    with Job(image, tmp_path, script, hosts=3, hyperparameters=TORCHRUN, late=late, command=(command,)) as job:
        let_only_through(job, "algo-2", "algo-1")
        job.start("algo-3")
        assert set(job.wait().values()) == {78}
        pair = re.compile(
            r"algo-([23]) cannot reach algo-(?!\1)[23] \([0-9.]+, port [0-9]+\): timed out; check the sec"
        )
        for host in job.hosts:
            assert pair.search(job.log(host))
            assert command == "--preflight" or pair.search(job.failure(host))


def test_a_connection_that_is_reset_again_and_again_is_made_again_and_the_job_goes_on(
    image: Image, tmp_path: Path
) -> None:
    reset = ("OUTPUT", "-p", "tcp", "--dport", GROUP_PORT, "-j", "REJECT", "--reject-with", "tcp-reset")
    with training(image, tmp_path, {"DLC_HEARTBEAT_TIMEOUT": "30"}) as job:  # a word each 5 s finds the reset
        for number in (1, 2):
            job.in_network("algo-2", "sh", "-euc", RESET, "sh", *reset)
            wait_for_count(job, "algo-2", "connecting again", number)
            wait_for_count(job, "algo-2", "the connection to algo-1 works again", number)
        assert end(job) == {"algo-1": 0, "algo-2": 0}


def test_a_network_that_is_cut_for_a_while_and_heals_does_not_end_the_job(image: Image, tmp_path: Path) -> None:
    with training(image, tmp_path, {"DLC_HEARTBEAT_TIMEOUT": "300"}) as job:
        with job.cut("algo-2"):
            time.sleep(CUT_SECONDS)  # this is what is tested
        assert end(job) == {"algo-1": 0, "algo-2": 0}


@pytest.mark.parametrize("ends_at_once", [False, True], ids=["while it trains", "as it ends"])
def test_a_connection_that_falls_silent_is_made_again_and_the_end_is_heard(
    image: Image, tmp_path: Path, ends_at_once: bool
) -> None:
    """As after a cut, when the kernel waits long before it sends again, or by a firewall that forgot the connection."""
    with training(image, tmp_path, {"DLC_HEARTBEAT_TIMEOUT": "30"}) as job:
        forget_connection(job, "algo-2")
        if not ends_at_once:
            wait_for_count(job, "algo-2", "the connection to algo-1 works again", 1)
        assert end(job) == {"algo-1": 0, "algo-2": 0}
        assert job.log("algo-2").count("connecting again") == 1
