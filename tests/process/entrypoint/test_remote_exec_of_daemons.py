"""remote_exec over loopback: the leader's agent and the other host's daemon, and whoever has no business there."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from supervised import HANG_BOUND

from harness.ports import free_port
from launch.base import process_spec
from launch.coordination import remote_exec
from launch.coordination.remote_exec import ExecSite

OTHER = "127.0.0.1"  # as mpirun calls the other host
ORTED = "#!/bin/sh\n"


class Pair:
    """The leader and one other host, with a daemon of ours in the place of Open MPI's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.started: list[subprocess.Popen[str]] = []
        self.daemon("true")

    def daemon(self, script: str) -> None:
        """What `orted` does on the other host."""
        path = self.folder / "orted"
        path.write_text(ORTED + script)
        path.chmod(0o755)

    def site(self, name: str, secret: str = "secret", leader: str = "") -> str:
        """A file that tells how the hosts are reached."""
        path = self.folder / name
        path.write_text(json.dumps(ExecSite(secret, self.port, (OTHER,), (OTHER,), leader)))
        return str(path)

    def serve(self, leader: str = "", **environ: str) -> subprocess.Popen[str]:
        """Start the other host."""
        argv = [
            sys.executable,
            "-I",
            "-S",
            process_spec.program_path("mpi_host"),
            self.site("host.json", leader=leader),
        ]
        return self.start(argv, {"PATH": f"{self.folder}:/usr/bin:/bin", **environ})

    def agent(self, *words: str, secret: str = "secret") -> subprocess.Popen[str]:
        """Start what the leader's mpirun calls."""
        argv = [sys.executable, "-I", "-S", process_spec.program_path("mpi_agent"), *(words or (OTHER, "orted"))]
        return self.start(argv, {"DLC_MPI_SITE": self.site(f"leader-{secret}.json", secret)})

    def start(self, argv: list[str], env: dict[str, str]) -> subprocess.Popen[str]:
        """A process that is ended with the test; it writes to one pipe."""
        process = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.started.append(process)
        return process

    def run(self, *words: str, secret: str = "secret") -> tuple[int, str]:
        """(exit code, output) of the agent."""
        process = self.agent(*words, secret=secret)
        output = process.communicate(timeout=HANG_BOUND)[0]
        return process.returncode, output

    def connect(self) -> socket.socket:
        """A connection to the other host, when it listens."""
        deadline = time.monotonic() + HANG_BOUND
        while True:
            try:
                return socket.create_connection((OTHER, self.port), timeout=HANG_BOUND)
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                time.sleep(0.02)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    for process in made.started:
        with process:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    """End a process; what it has said."""
    process.terminate()
    return process.communicate(timeout=HANG_BOUND)[0]


def test_the_daemon_runs_there_and_the_agent_ends_as_it_does_with_its_words(pair: Pair) -> None:
    pair.daemon(f'echo "$@"; echo trouble >&2; pwd > {pair.folder}/there; exit 5')
    host = pair.serve()
    assert pair.run("-x", OTHER, " orted", "-mca", '"a;b"') == (5, "-mca a;b\ntrouble\n")
    assert (pair.folder / "there").exists()
    assert host.stdout
    assert host.stdout.readline() == "dlc: Open MPI's daemon ended with code 5\n"


def test_a_host_is_reached_by_its_address_where_the_resolver_does_not_answer(pair: Pair) -> None:
    pair.serve()
    site = ExecSite("secret", pair.port, ("algo-2.invalid",), (), "", {"algo-2.invalid": OTHER})
    assert remote_exec.run_on_host(site, "algo-2.invalid", "orted") == 0


def test_a_host_that_stood_still_during_the_handshake_is_asked_again(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_exec, "PROOF_SECONDS", 0.2)
    codes: list[int] = []
    site = ExecSite("secret", pair.port, (OTHER,))
    with socket.create_server((OTHER, pair.port)) as listener:
        agent = threading.Thread(
            target=lambda: codes.append(remote_exec.run_on_host(site, OTHER, "orted")), daemon=True
        )
        agent.start()
        halted, _ = listener.accept()
        time.sleep(0.3)
    halted.close()
    pair.serve()
    agent.join(HANG_BOUND)
    assert codes == [0]


def test_the_command_of_a_user_whose_shell_is_sh_is_accepted(pair: Pair) -> None:
    pair.daemon("echo started")
    pair.serve()
    command = "( test ! -r ./.profile || . ./.profile; PATH=/x:$PATH ; export PATH ; orted --daemonize)"
    assert pair.run(OTHER, command) == (0, "started\n")


def test_a_refused_command_is_named_on_both_hosts_and_the_right_one_is_still_taken(pair: Pair) -> None:
    host = pair.serve()
    code, errors = pair.run(OTHER, f"touch {pair.folder}/entered")
    assert code == 69
    assert "the command was refused there, it does not start Open MPI's daemon" in errors
    assert pair.run() == (0, "")
    assert "dlc: a command was refused" in said(host)
    assert not (pair.folder / "entered").exists()


def test_somebody_without_the_jobs_key_starts_nothing_and_the_leader_still_can(pair: Pair) -> None:
    pair.daemon(f"touch {pair.folder}/entered")
    pair.serve()
    code, errors = pair.run(secret="guessed")
    assert code == 69
    assert "dlc: mpirun: 127.0.0.1, port" in errors
    assert not (pair.folder / "entered").exists()
    assert pair.run() == (0, "")


def test_what_the_leader_said_to_one_host_starts_nothing_when_it_is_played_again(pair: Pair) -> None:
    pair.daemon(f"echo x >> {pair.folder}/entered")
    pair.serve()
    with pair.connect() as listener:  # a leader's words, recorded
        channel = ExecSite("secret", 1).open_channel(listener, is_server=False)
        channel._incoming += b"dlc/2 exec " + b"0" * 64 + b"\n"  # the nonce of another session
        channel._shake_hands()
        channel._open()
        channel.send({"kind": "start", "command": "orted"})
        channel.flush()
        channel.socket.settimeout(HANG_BOUND)
        with contextlib.suppress(ConnectionResetError):
            while channel.socket.recv(1 << 16):
                pass
    assert not (pair.folder / "entered").exists()
    assert pair.run() == (0, "")


def test_a_host_is_started_once(pair: Pair) -> None:
    host = pair.serve()
    assert pair.run() == (0, "")
    with socket.socket() as probe:
        assert probe.connect_ex((OTHER, pair.port)) != 0
    assert host.poll() is None, "the host stays: the job is not over"


def test_a_host_that_listens_later_is_waited_for(pair: Pair) -> None:
    agent = pair.agent()
    with pytest.raises(subprocess.TimeoutExpired):
        agent.wait(0.3)
    pair.serve()
    assert agent.wait(HANG_BOUND) == 0


def test_only_the_leaders_address_is_let_in(pair: Pair) -> None:
    pair.serve(leader="127.0.0.2")
    with pair.connect() as stranger:
        assert stranger.recv(100) == b""
    with socket.create_connection((OTHER, pair.port), HANG_BOUND, source_address=("127.0.0.2", 0)) as leader:
        assert leader.recv(100).startswith(b"dlc/2 exec ")


def test_a_leader_that_met_the_group_over_ipv6_may_come_over_ipv4(pair: Pair) -> None:
    pair.serve(leader="fd00::1")
    assert pair.run() == (0, "")


def test_many_who_prove_nothing_keep_the_leader_out_of_nothing(pair: Pair) -> None:
    pair.serve()
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(pair.connect())
        assert pair.run() == (0, "")


def test_a_command_of_100_kilobytes_passes(pair: Pair) -> None:
    pair.daemon('printf %s "$1" | wc -c')
    pair.serve()
    assert pair.run(OTHER, "orted", "x" * 100_000) == (0, "100000\n")


def test_the_daemon_gets_this_hosts_variables_but_none_of_another_run_of_open_mpi_or_of_slurm(pair: Pair) -> None:
    pair.daemon("env")
    pair.serve(KEPT="yes", OMPI_MCA_plm="slurm", PMIX_RANK="3", PRTE_MCA_x="1", SLURM_JOBID="5")
    names = {line.partition("=")[0] for line in pair.run()[1].splitlines()}
    assert "KEPT" in names
    assert not {name for name in names if name.startswith(("OMPI_", "PMIX_", "PRTE_", "SLURM_"))}


def test_a_daemon_that_stays_in_the_foreground_is_carried_until_its_end_and_outlives_the_leader(pair: Pair) -> None:
    pair.daemon(f"echo up; read line < {pair.folder}/fifo; echo $line > {pair.folder}/ended")
    os.mkfifo(pair.folder / "fifo")
    pair.serve()
    agent = pair.agent()
    assert agent.stdout is not None
    assert agent.stdout.readline() == "up\n"
    agent.kill()
    agent.communicate()
    (pair.folder / "fifo").write_text("well\n")
    deadline = time.monotonic() + HANG_BOUND
    while not (pair.folder / "ended").exists() or not (pair.folder / "ended").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_host_that_is_none_of_the_jobs_is_named(pair: Pair) -> None:
    code, errors = pair.run("elsewhere", "orted")
    assert code == 78
    assert "a host that is not one of the job's; expected one of 127.0.0.1; found 'elsewhere orted'" in errors


def test_a_port_in_use_is_said(pair: Pair) -> None:
    with socket.create_server((OTHER, pair.port)):
        host = pair.serve()
        said_itself = host.communicate(timeout=HANG_BOUND)[0]
        assert host.returncode == 69
        assert "where mpirun starts this host: cannot be opened: Address already in use" in said_itself


def test_whoever_listens_there_without_the_key_is_told_nothing(pair: Pair) -> None:
    """No command, and with it no address of mpirun's, goes to a server that has not proved itself."""
    with socket.create_server((OTHER, pair.port)) as server:
        agent = pair.agent()
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"dlc/2 exec " + b"0" * 64 + b"\n")
            heard = b""
            while heard.count(b"\n") < 1:
                heard += connection.recv(1 << 16)
            connection.sendall(b"0" * 64 + b"\n" + b"0" * 64 + b' {"kind":"end","code":0}\n')
            with contextlib.suppress(ConnectionResetError):
                while data := connection.recv(1 << 16):
                    heard += data
        assert b"orted" not in heard
        assert "is not this job's launcher" in agent.communicate(timeout=HANG_BOUND)[0]
        assert agent.returncode == 69
