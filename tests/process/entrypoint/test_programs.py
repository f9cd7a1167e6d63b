"""The programs that the launcher starts beside the user's, started for real."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.ports import free_port
from launch.base import process_spec
from launch.supervision import process_tree

BOUND = 60  # seconds; only a hang takes that long


def start(name: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", process_spec.program_path(name), *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=BOUND, check=False)


@pytest.fixture
def rendezvous() -> Iterator[str]:
    """The address of a rendezvous server for two hosts of two ranks."""
    port = free_port()
    command = [sys.executable, "-I", "-S", process_spec.program_path("horovod_rendezvous"), str(port), "4", "2", "2"]
    with subprocess.Popen(command) as process:
        end = time.monotonic() + BOUND
        while time.monotonic() < end and process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
        process.kill()


def ask(url: str, method: str = "GET", data: bytes | None = None) -> bytes | None:
    """The body of the answer, None for 404."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, method=method), timeout=BOUND) as answer:
            body: bytes = answer.read()
            return body
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return None


def test_the_rendezvous_gives_out_what_was_put_in(rendezvous: str) -> None:
    assert ask(f"{rendezvous}/global/0") is None
    ask(f"{rendezvous}/global/0", "PUT", b"\0\xff")
    assert ask(f"{rendezvous}/global/0") == b"\0\xff"
    assert ask(f"{rendezvous}/local_algo-1/0") is None


def test_a_scope_is_dropped_when_all_its_ranks_are_connected(rendezvous: str) -> None:
    for rank in range(4):
        ask(f"{rendezvous}/global/{rank}", "PUT", b"address")
    for rank in range(3):
        ask(f"{rendezvous}/global/{rank}", "DELETE")
    assert ask(f"{rendezvous}/global/0") == b"address"
    ask(f"{rendezvous}/global/3", "DELETE")
    assert ask(f"{rendezvous}/global/0") is None


def test_many_ranks_may_come_at_once(rendezvous: str) -> None:
    threads = [
        threading.Thread(target=ask, args=(f"{rendezvous}/local_x/{rank}", "PUT", b"%d" % rank)) for rank in range(64)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND)
    assert [ask(f"{rendezvous}/local_x/{rank}") for rank in range(64)] == [b"%d" % rank for rank in range(64)]


SECRET = "0123abc"


@pytest.fixture
def closed_rendezvous() -> Iterator[str]:
    """The server as a job of several hosts has it: one address, and a secret."""
    port = free_port()
    argv = [
        sys.executable,
        "-I",
        "-S",
        process_spec.program_path("horovod_rendezvous"),
        str(port),
        "4",
        "2",
        "2",
        "127.0.0.1",
    ]
    with subprocess.Popen(argv, env={"DLC_RENDEZVOUS_SECRET": SECRET}) as process:
        end = time.monotonic() + BOUND
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
        process.terminate()


def status(url: str, method: str = "GET", data: bytes | None = None) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, method=method), timeout=BOUND) as answer:
            found: int = answer.status
            return found
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_who_knows_the_secret_meets_the_others(closed_rendezvous: str) -> None:
    path = f"{closed_rendezvous}/{SECRET}:7778/global/0"  # as Horovod makes it of address and port
    assert status(path, "PUT", b"address") == 200
    assert ask(path) == b"address"


@pytest.mark.parametrize("path", ["/global/0", "/:7778/global/0", "/wrong:7778/global/0", "/0123ab:7778/global/0", "/"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_who_does_not_know_the_secret_reads_and_writes_nothing(closed_rendezvous: str, path: str, method: str) -> None:
    assert status(f"{closed_rendezvous}{path}", method, b"x" if method == "PUT" else None) == 403


def test_nobody_can_fill_the_memory_of_the_rendezvous(closed_rendezvous: str) -> None:
    base = f"{closed_rendezvous}/{SECRET}:1"
    assert status(f"{base}/global/0", "PUT", b"x" * 100_000) == 413
    answers = {status(f"{base}/global/{number}", "PUT", b"x") for number in range(1400)}
    assert answers == {200, 507}


def test_the_rendezvous_listens_on_the_jobs_address_alone(closed_rendezvous: str) -> None:
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.9", int(closed_rendezvous.rpartition(":")[2]))) != 0


def test_a_command_starts_when_its_servers_listen() -> None:
    port = free_port()
    arguments = ["30", "127.0.0.1", str(port), "--", "/bin/echo", "a b"]
    command = [sys.executable, "-I", "-S", process_spec.program_path("wait_for_servers"), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with process, socket.create_server(("127.0.0.1", port)):
        assert process.communicate(timeout=BOUND)[0] == "a b\n"
    assert process.returncode == 0


def test_waiting_without_a_command_is_only_waiting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert start("wait_for_servers", "30", "127.0.0.1", str(server.getsockname()[1]), "--").returncode == 0


def test_a_server_that_never_listens_is_named() -> None:
    port = str(free_port())
    done = start("wait_for_servers", "0.3", "127.0.0.1", port, "--", "/bin/echo")
    assert (done.returncode, done.stdout) == (69, "")
    assert f"nobody listens on 127.0.0.1, port {port}" in done.stderr


def test_an_mpi_rank_has_its_own_hosts_variables_and_what_mpirun_brought(tmp_path: Path) -> None:
    host = {"SM_CURRENT_HOST": "algo-2", "CURRENT_HOST": "algo-2", "SECRET": "s", "PATH": "/host", "NCCL_DEBUG": "WARN"}
    path = tmp_path / "rank_environment.json"
    path.write_text(json.dumps(host))
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    brought = {"SM_CURRENT_HOST": "algo-1", "NCCL_DEBUG": "TRACE", "OMPI_COMM_WORLD_RANK": "3", "PATH": "/mpirun"}
    done = start("mpi_rank", str(path), "--as-is", sys.executable, "-c", code, **brought)
    prefix, _, line = done.stdout.partition(" ")
    env = json.loads(line)
    assert prefix == "[algo-2:3]"
    expected = {**host, "NCCL_DEBUG": "TRACE", "OMPI_COMM_WORLD_RANK": "3", "PATH": "/mpirun"}
    assert {name: env[name] for name in expected} == expected


SCRIPT = """
import sys
assert __name__ != "__main__"
import beside
def _mp_fn(index):
    print("rank", index, sys.argv, beside.VALUE)
"""


def test_the_spawn_program_calls_mp_fn_with_the_rank_as_in_the_scripts_own_folder(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "beside.py").write_text("VALUE = 7")
    command = [sys.executable, process_spec.program_path("xla_spawn"), str(tmp_path / "train.py"), "--lr", "1"]
    env = {"RANK": "3", "PJRT_DEVICE": "CUDA"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.stderr == ""
    assert done.stdout == f"rank 3 ['{tmp_path}/train.py', '--lr', '1'] 7\n"


FAKE_BOTO3 = """
class Client:
    def get_authorization_token(self, domain, domainOwner):
        return {"authorizationToken": f"token-of-{domain}-{domainOwner}"}
    def get_repository_endpoint(self, domain, domainOwner, repository, format):
        return {"repositoryEndpoint": f"https://example.invalid/{format}/{repository}/"}
def client(service, region_name):
    assert (service, region_name) == ("codeartifact", "eu-west-1")
    return Client()
"""
ARN = "arn:aws:codeartifact:eu-west-1:123456789012:repository/domain/repo"


def pip_with(arn: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The program in a folder whose boto3 and pip are ours: AWS is not to be had here."""
    (folder / "pip").mkdir(exist_ok=True)
    (folder / "pip/__init__.py").touch()
    (folder / "pip/__main__.py").write_text("import os, sys; print(sys.argv[1:], os.environ['PIP_INDEX_URL'])")
    command = [sys.executable, process_spec.program_path("codeartifact_pip"), arn, "install", "x"]
    env = {"PYTHONPATH": str(folder)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=BOUND, check=False)


def test_pip_gets_the_token_of_a_codeartifact_repository_in_a_variable(tmp_path: Path) -> None:
    (tmp_path / "boto3.py").write_text(FAKE_BOTO3)
    url = "https://aws:token-of-domain-123456789012@example.invalid/pypi/repo/simple/"
    assert pip_with(ARN, tmp_path).stdout == f"['install', 'x'] {url}\n"


def test_what_is_no_repository_and_what_cannot_be_asked_is_named(tmp_path: Path) -> None:
    done = pip_with("arn:aws:s3:::bucket", tmp_path)
    assert (done.returncode, "is not the ARN" in done.stderr) == (78, True)
    (tmp_path / "boto3.py").write_text("raise ImportError('no boto3 here')")
    done = pip_with(ARN, tmp_path)
    assert (done.returncode, "no boto3 here" in done.stderr) == (69, True)


def test_a_download_without_boto3_says_what_to_do_instead(tmp_path: Path) -> None:
    done = start("s3_download", "s3://bucket/key", str(tmp_path / "file"))
    assert done.returncode == 69
    assert "this image has no boto3" in done.stderr


def ray_node(folder: Path, ray: str, *options: str) -> subprocess.Popen[str]:
    """The program that starts Ray, over a script in the place of Ray's own."""
    (folder / "bin").mkdir()
    if ray:
        (folder / "bin/ray").write_text(f"#!/bin/sh\n{ray}\n")
        (folder / "bin/ray").chmod(0o755)
    command = [sys.executable, "-I", "-S", process_spec.program_path("ray_node"), str(folder / "ray"), *options]
    env = {"PATH": f"{folder}/bin"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, text=True)


def test_what_ray_says_at_its_start_is_shown_where_it_fails_and_only_there(tmp_path: Path) -> None:
    node = ray_node(tmp_path, 'echo "hello $*"; exit 3', "--head")
    assert node.communicate(timeout=BOUND) == ("", f"hello start --block --temp-dir={tmp_path}/ray --head\n")
    assert node.returncode == 3
    assert (tmp_path / "ray").stat().st_mode & 0o777 == 0o700
    (tmp_path / "well").mkdir()
    assert ray_node(tmp_path / "well", "echo hello").communicate(timeout=BOUND) == ("", "")


def test_a_missing_ray_is_named_with_the_ways_to_get_it(tmp_path: Path) -> None:
    node = ray_node(tmp_path, "")
    _, said = node.communicate(timeout=BOUND)
    assert node.returncode == 78
    assert "requirements.txt" in said


def test_ray_is_ended_at_once_though_it_would_take_its_time(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "runs")
    node = ray_node(tmp_path, f"trap '' TERM; echo $$ > {tmp_path}/runs; while :; do /bin/sleep 1; done")
    pid = int((tmp_path / "runs").read_text())
    while not process_tree.catches_signal(node.pid, signal.SIGTERM):
        time.sleep(0.01)
    node.terminate()
    node.communicate(timeout=BOUND)
    assert node.returncode == 128 + signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
