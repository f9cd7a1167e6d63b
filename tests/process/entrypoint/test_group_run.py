"""Several hosts for real: launchers on loopback addresses, whose jobs end together."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from launchers import MULTI_WORKER, Hosts
from real_launcher import BOUND

from harness.job_folder import HOROVOD, TORCHRUN


def at_last_ended(hosts: Hosts) -> Iterator[Hosts]:
    yield hosts
    for process in hosts.processes:
        process.kill()
        process.wait()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Hosts]:
    yield from at_last_ended(Hosts(tmp_path, 2))


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Hosts]:
    yield from at_last_ended(Hosts(tmp_path, 3))


def test_every_host_gets_its_own_task_and_all_end_well(two: Hosts) -> None:
    two.configure("import os; print(os.environ['TF_CONFIG'])", **MULTI_WORKER)
    two.start()
    ends = two.ends()
    assert [json.loads(out)["task"]["index"] for _, out, _ in ends] == [0, 1]
    assert [(code, failure) for code, _, failure in ends] == [(0, ""), (0, "")]


SECOND_FAILS = """
import os, sys, time
if os.environ["SM_CURRENT_HOST"] == "127.0.0.2":
    sys.exit("no such data")
time.sleep(60)
"""


def test_the_failure_of_one_host_ends_the_others_and_is_told_to_them(two: Hosts) -> None:
    two.configure(SECOND_FAILS, **MULTI_WORKER)
    two.start()
    (first_code, _, first), (second_code, _, second) = two.ends()
    assert (first_code, second_code) == (1, 1)
    assert second.startswith("worker rank 1 on 127.0.0.2 exited with code 1\nno such data")
    assert first.startswith("the job failed on 127.0.0.2: worker rank 1 on 127.0.0.2 exited with code 1")


DATA_SERVES = """
import os, time
print("started", flush=True)
if os.environ["SM_CURRENT_INSTANCE_GROUP"] == "data":
    time.sleep(60)
"""


def test_a_data_host_ends_well_when_the_distributed_group_has(three: Hosts) -> None:
    groups = {"data": [0], "dnn": [1, 2]}
    three.configure(DATA_SERVES, groups, **MULTI_WORKER, sagemaker_distribution_instance_groups=["dnn"])
    three.start()
    data, *training = three.ends()
    assert (data[0], data[2]) == (0, "")  # it may end before it has said anything
    assert training == [(0, "started\n", "")] * 2


def test_an_error_before_the_start_is_told_to_the_others(two: Hosts) -> None:
    two.configure("import time; time.sleep(60)", **MULTI_WORKER)
    (two.jobs[1].base / "code/train.py").unlink()
    two.start()
    (first_code, _, first), (second_code, _, second) = two.ends()
    assert (first_code, second_code) == (66, 66)
    assert "no such entry point" in second
    assert "the job failed on 127.0.0.2" in first


# In a container the script would end with its launcher, which is PID 1.
ENDS_WITH_ITS_LAUNCHER = """
import os, time
launcher = os.getppid()
print("started", flush=True)
while os.getppid() == launcher:
    time.sleep(0.1)
"""


def test_a_host_that_is_killed_ends_the_others(two: Hosts) -> None:
    two.configure(ENDS_WITH_ITS_LAUNCHER, **MULTI_WORKER)
    two.start_scripts(DLC_HEARTBEAT_TIMEOUT="2")
    two.processes[0].kill()
    code, _, failure = two.ends()[1]
    assert code == 69
    assert failure.count("127.0.0.1, which leads the group, vanished") == 1


FAILS_WHEN_TOLD = """
import pathlib, sys, time
print("started", flush=True)
while not pathlib.Path("told").exists():
    time.sleep(0.02)
sys.exit("my peer has gone")
"""


def test_a_failure_that_follows_from_a_killed_host_names_that_host_too(three: Hosts) -> None:
    three.configure(FAILS_WHEN_TOLD, **MULTI_WORKER)
    three.start_scripts(DLC_HEARTBEAT_TIMEOUT="2")
    three.processes[1].kill()
    three.processes[1].wait()
    for job in three.jobs[:2]:  # the script of the killed launcher has nobody else who would end it
        (job.base / "code/told").touch()
    (code, _, failure), _, (other_code, _, other) = three.ends()
    assert (code, other_code) == (1, 1)
    broke = "worker rank 0 on 127.0.0.1 exited with code 1; before that the connection to 127.0.0.2 broke\n"
    assert failure.startswith(f"{broke}my peer has gone")
    assert f"dlc: {broke}" in three.stderr[0]  # in the block that says why it ends
    assert other.startswith(f"the job failed on 127.0.0.1: {broke}")


def test_a_stop_during_the_wait_for_a_peer_is_prompt_and_truthful(two: Hosts) -> None:
    two.configure("", **MULTI_WORKER)
    two.jobs.pop()
    two.start()
    two.wait_for_leader()
    two.processes[0].send_signal(signal.SIGTERM)
    code, _, failure = two.ends()[0]
    assert code == 143
    assert failure == "stopped by SIGTERM\n"


def test_a_process_that_cannot_be_started_is_the_reason_on_every_host(two: Hosts) -> None:
    two.configure("import time; time.sleep(60)")
    two.jobs[1].code(["run"], "#!/no/such/interpreter").env(SAGEMAKER_PROGRAM="run")
    (two.jobs[1].base / "code/run").chmod(0o755)
    two.start()
    (first_code, _, first), (second_code, _, second) = two.ends()
    assert first_code == second_code
    assert "could not be started" in second
    assert "127.0.0.2" in first
    assert "could not be started" in first


SAVES_TOGETHER = """
import glob, os, pathlib, signal, sys, time
own = pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"])
def save(*_):
    (own / "told").touch()
    while len(glob.glob("../../*/told")) < 2: time.sleep(0.02)  # a collective checkpoint
    (own / "saved").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("started", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("stopped", [0, 1])
@pytest.mark.parametrize("strategy", [{}, MULTI_WORKER], ids=["plain", "distributed"])
def test_a_stop_of_one_host_lets_all_of_them_save_together(two: Hosts, stopped: int, strategy: dict[str, bool]) -> None:
    two.configure(SAVES_TOGETHER, **strategy)
    two.start_scripts()
    two.processes[stopped].terminate()
    assert two.ends() == [(0, "", "")] * 2
    for job in two.jobs:
        assert (job.base / "saved").exists()
        assert not (job.base / "output/success").exists()


def test_a_stop_while_the_configuration_is_read_is_told_to_the_others(two: Hosts) -> None:
    two.configure("raise SystemExit('started')")
    path = two.jobs[1].base / "input/config/hyperparameters.json"
    known = path.read_bytes()
    path.unlink()
    os.mkfifo(path)
    two.start()
    with path.open("wb"):  # it reads now
        path.unlink()
        path.write_bytes(known)
        two.processes[1].terminate()
        ends = two.ends()
    assert [code for code, _, _ in ends] == [143, 143]
    assert "127.0.0.2: stopped by SIGTERM" in ends[0][2]


def test_a_peer_that_never_comes_is_named(two: Hosts) -> None:
    two.configure("", **MULTI_WORKER)
    two.jobs.pop()
    two.jobs[0].env(DLC_PEER_TIMEOUT="1")
    two.start()
    code, _, failure = two.ends()[0]
    assert code == 69
    assert failure.startswith("127.0.0.2 did not join the job within 1 s")


def test_a_plain_job_ends_on_every_host_when_one_fails(two: Hosts) -> None:
    two.configure(SECOND_FAILS)
    two.start()
    (first_code, _, first), (second_code, _, _) = two.ends()
    assert (first_code, second_code) == (1, 1)
    assert "the job failed on 127.0.0.2" in first


def test_preflight_on_every_host_says_that_they_fit_together(two: Hosts) -> None:
    two.configure("raise SystemExit('started')", **MULTI_WORKER)
    two.start("--preflight")
    for code, out, _ in two.ends():
        assert code == 0
        assert out.startswith("preflight: 2 host(s) answered in ")


def test_preflight_names_the_host_with_another_image_and_train_starts_nothing(two: Hosts) -> None:
    two.configure("print('started')", **MULTI_WORKER)
    two.jobs[0].env(DLC_CONTENT_KEY="aaa")
    two.jobs[1].env(DLC_CONTENT_KEY="bbb")
    two.start("--preflight")
    for code, out, _ in two.ends():
        assert code == 78
        assert "error: the hosts run different images: aaa on 127.0.0.1, bbb on 127.0.0.2; use one image" in out
    two.start()
    for code, out, failure in two.ends():
        assert (code, out) == (78, "")
        assert "the hosts run different images" in failure


def test_preflight_of_a_host_alone_looks_at_its_traps(tmp_path: Path) -> None:
    alone = Hosts(tmp_path, 1)
    alone.configure("")
    alone.start("--preflight")
    ((code, out, _),) = alone.ends()
    assert code == 0
    assert out.startswith("preflight: 1 host(s) answered")


MPI = {"sagemaker_mpi_enabled": True}


def test_mpi_is_refused_where_nothing_secret_tells_the_jobs_hosts_from_others(two: Hosts) -> None:
    two.configure("raise SystemExit('started')", **MPI)
    for job in two.jobs:
        del job.environ["TRAINING_JOB_NAME"]
    two.start()
    for code, out, failure in two.ends():
        assert (code, out) == (78, "")
        assert "DLC_JOB_TOKEN" in failure
        assert "openssl rand" in failure


def test_other_jobs_are_warned_and_the_token_reaches_no_user_process(two: Hosts) -> None:
    two.configure("import os; print(os.environ.get('DLC_JOB_TOKEN'))")
    for job in two.jobs:
        del job.environ["TRAINING_JOB_NAME"]
    two.start()
    errors = [process.communicate(timeout=BOUND)[1] for process in two.processes]
    assert all("by their names alone, which is no secret; set DLC_JOB_TOKEN" in error for error in errors)
    for job in two.jobs:
        job.env(DLC_JOB_TOKEN="not for scripts")
    two.start()
    assert [(code, out) for code, out, _ in two.ends()] == [(0, "None\n")] * 2


def test_a_token_out_of_a_file_is_in_no_environment_of_the_job(two: Hosts, tmp_path: Path) -> None:
    two.configure("import os; print('5ec4e7' in open(f'/proc/{os.getppid()}/environ').read() + str(os.environ))")
    for number, job in enumerate(two.jobs):
        path = tmp_path / f"token-{number}"
        path.write_text("5ec4e7\n")
        del job.environ["TRAINING_JOB_NAME"]
        job.env(DLC_JOB_TOKEN_FILE=str(path))
    two.start()
    assert [(code, out) for code, out, _ in two.ends()] == [(0, "False\n")] * 2
    assert not any("no secret" in error for error in two.stderr)
    assert list(tmp_path.glob("token-*")) == []


@pytest.mark.parametrize(
    ("strategy", "switch"), [(TORCHRUN, "DLC_MASTER_PORT"), (HOROVOD, "DLC_HOROVOD_PORT")], ids=["torchrun", "horovod"]
)
def test_a_port_in_use_where_ranks_are_to_meet_is_said_on_every_host_before_anything_starts(
    two: Hosts, strategy: dict[str, bool], switch: str
) -> None:
    two.configure("print('started')", **strategy)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for job in two.jobs:
            job.env(**{switch: str(taken.getsockname()[1])})
        two.start()
        for code, out, failure in two.ends():
            assert (code, out) == (69, "")
            assert "cannot meet here: Address already in use" in failure
            assert f"set {switch} to a free port" in failure


def test_hosts_that_train_each_for_itself_are_warned_of_first_and_last(two: Hosts) -> None:
    two.configure("print('trained')")
    two.start()
    assert [(code, out) for code, out, _ in two.ends()] == [(0, "trained\n")] * 2
    for error in two.stderr:
        assert error.count("warning: nothing connects the 2 hosts") == 2
        assert "nothing connects the 2 hosts" in error.splitlines()[-1]


def test_the_reason_of_another_hosts_failure_is_told_once(two: Hosts) -> None:
    two.configure("import os, sys, time\nif os.environ['SM_CURRENT_HOST'] == '127.0.0.2': sys.exit(7)\ntime.sleep(600)")
    two.start()
    assert [code for code, *_ in two.ends()] == [7, 7]
    assert two.stderr[0].count("the job failed") == 1
    assert two.stderr[0].count("exited with code 7") == 1


SECOND_WAITS = """
import os, pathlib, time
while os.environ["SM_CURRENT_HOST"] == "127.0.0.2" and not os.path.exists("go"): time.sleep(0.01)
pathlib.Path("done").touch()
"""


def test_a_host_that_is_done_stays_until_the_others_are(two: Hosts) -> None:
    two.configure(SECOND_WAITS)
    two.start()
    while not (two.jobs[0].base / "code/done").exists():
        time.sleep(0.01)
    time.sleep(0.5)  # it would end by itself soon after its script
    assert two.processes[0].poll() is None
    (two.jobs[1].base / "code/go").touch()
    assert [code for code, _, _ in two.ends()] == [0, 0]


SLOW_PIP = """
import os, pathlib, time
time.sleep(os.environ["SM_CURRENT_HOST"] == "127.0.0.2")
pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"], "installed").touch()
"""


def test_no_host_starts_before_every_host_has_installed_its_requirements(two: Hosts) -> None:
    two.configure("import glob; print(len(glob.glob('../../*/installed')))")
    for job in two.jobs:
        job.code(["requirements.txt", "pip/__init__.py"]).code(["pip/__main__.py"], SLOW_PIP)
    two.start()
    assert [(code, out.splitlines()[-1:]) for code, out, _ in two.ends()] == [(0, ["2"])] * 2


def test_an_error_on_the_leader_before_it_could_listen_is_told_to_the_others(two: Hosts) -> None:
    two.configure("raise SystemExit('started')")
    two.jobs[0].config("hyperparameters", "{")
    two.start()
    (first_code, _, first), (second_code, _, second) = two.ends()
    assert (first_code, second_code) == (65, 65), second
    assert "hyperparameters.json: not JSON" in first
    assert "the job failed on 127.0.0.1" in second
    assert "hyperparameters.json: not JSON" in second


FAILS_ONCE = """
import json, os, pathlib, sys, time
print("attempt", flush=True)
hosts = json.loads(os.environ["SM_HOSTS"])
first = pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"], "tried")
if not first.exists():
    first.touch()
    if os.environ["SM_CURRENT_HOST"] == hosts[-1]:
        while len(list(first.parent.parent.glob("*/tried"))) < len(hosts):
            time.sleep(0.05)
        sys.exit(9)
    time.sleep(60)
"""


@pytest.mark.parametrize("count", [1, 2])
def test_a_failure_is_tried_again_in_place_where_restarts_are_allowed(tmp_path: Path, count: int) -> None:
    hosts = Hosts(tmp_path, count)
    hosts.configure(FAILS_ONCE)
    for job in hosts.jobs:
        job.env(DLC_MAX_RESTARTS="1")
    hosts.start()
    assert [(code, out, failure) for code, out, failure in hosts.ends()] == [(0, "attempt\n" * 2, "")] * count


def test_checkpoints_of_an_earlier_run_are_said_at_the_start(tmp_path: Path) -> None:
    alone = Hosts(tmp_path, 1)
    alone.configure("")
    (alone.jobs[0].base / "checkpoints").mkdir()
    (alone.jobs[0].base / "checkpoints/epoch-3.pt").touch()
    alone.start()
    _, errors = alone.processes[0].communicate(timeout=BOUND)
    assert "dlc: found checkpoints: 1 in " in errors
    assert "epoch-3.pt" in errors
