"""What goes wrong on a data host reaches the training rank as one error that names the host, and nothing hangs."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest
from service_runs import HANGS, Service, listening, wait_for

from harness.ports import free_port

PROOFLESS = b"dlc/2 batch " + b"0" * 64 + b" algo-2 " + b"0" * 64 + b"\n"


def test_the_users_exception_reaches_the_training_rank_with_the_remote_traceback_and_host(service: Service) -> None:
    _, port = service.serve("Raises", 30, batch_size=3)
    rank = service.take([port])
    assert rank.wait() == 1
    assert "RemoteUserError: ValueError in the user's code on the data host localhost" in rank.log
    assert "ValueError: sample seven is broken" in rank.log
    assert "serve_samples.py" in rank.log
    assert "in __getitem__" in rank.log
    assert rank.taken.samples == [0, 1, 2, 3, 4, 5]  # what comes before it in order was given out


def test_a_user_function_that_hangs_is_named_after_the_deadline_with_where_it_is(service: Service) -> None:
    _, port = service.serve("Hangs", 30, batch_size=3)
    rank = service.take([port], deadline=1.0)
    assert rank.wait() == 1
    assert "HangingUserFunctionError: the user's function on localhost has worked on batch 2 of epoch 0" in rank.log
    assert "in __getitem__" in rank.log


def test_the_time_in_which_a_data_host_stood_still_is_not_the_users_function_that_hangs(service: Service) -> None:
    host, port = service.serve("Numbers", 3000, batch_size=10)
    rank = service.take([port], deadline=2.0, step=0.002, prefetch=2)
    wait_for(lambda: rank.count > 20, lambda: rank.log)
    host.signal_all(signal.SIGSTOP)
    time.sleep(3.0)  # this is what is tested
    host.signal_all(signal.SIGCONT)
    assert rank.finish().samples == list(range(3000))


def test_a_batch_that_kills_every_worker_ends_the_job_instead_of_killing_workers_for_ever(service: Service) -> None:
    server, port = service.serve("Dies", 30, batch_size=3)
    rank = service.take([port])
    assert rank.wait() == 1
    assert "batch 2 of epoch 0 ended several workers that made it" in rank.log
    assert server.process.poll() is None  # the data host itself lives


def test_a_batch_over_the_bound_is_refused_by_the_data_host_with_the_setting_that_bounds_it(service: Service) -> None:
    _, port = service.serve("Large", 4, batch_size=2, most_batch_bytes=1_500_000)
    rank = service.take([port])
    assert rank.wait() == 1
    assert "BatchTooLargeError: on the data host localhost: a batch of 2000000 bytes; the bound is 1500000" in rank.log
    assert "most_batch_bytes" in rank.log


def test_what_cannot_travel_is_named_by_its_place_in_the_batch(service: Service) -> None:
    _, port = service.serve("Odd", 4, batch_size=2)
    rank = service.take([port])
    assert rank.wait() == 1
    assert "UnsupportedBatchError: on the data host localhost: batch[0]['image']: a builtins.object" in rank.log


def test_a_data_host_that_is_paused_loses_nothing_and_stops_nobody(service: Service) -> None:
    ports = [free_port(), free_port()]
    hosts = [service.serve("Numbers", 3000, port, batch_size=10, shuffle=True)[0] for port in ports]
    rank = service.take(ports, elsewhere_after=0.5, step=0.002)
    wait_for(lambda: rank.count > 20, lambda: rank.log)
    hosts[0].signal_all(signal.SIGSTOP)
    paused_at = rank.count
    wait_for(lambda: rank.count > paused_at + 60, lambda: rank.log)
    hosts[0].signal_all(signal.SIGCONT)
    assert sorted(rank.finish().samples) == list(range(3000))


def test_without_any_data_host_the_rank_says_which_it_tried_and_why_each_failed(service: Service) -> None:
    port = free_port()
    rank = service.take([port], patience=5.0)
    assert rank.wait() == 1
    assert f"ServersLostError: no data server answered for 5 s: 127.0.0.1:{port}: unavailable" in rank.log


def test_a_data_host_whose_program_has_ended_costs_no_patience(service: Service, tmp_path: Path) -> None:
    told = tmp_path / "ended"
    told.write_text('["127.0.0.1"]')
    service.environ["DLC_ENDED_HOSTS_FILE"] = str(told)
    rank = service.take([free_port()])
    assert rank.wait() == 1
    assert "ServersLostError: no data host serves any more: the program of 127.0.0.1 has ended; let it call" in rank.log


def test_when_the_last_data_host_dies_the_rank_waits_for_it_and_then_says_so(service: Service) -> None:
    host, port = service.serve("Slow", 400, batch_size=2)
    rank = service.take([port], patience=3.0)
    wait_for(lambda: rank.count > 2, lambda: rank.log)
    host.kill()
    assert rank.wait() == 1
    assert "ServersLostError: no data server was heard of for" in rank.log
    assert f"127.0.0.1:{port}" in rank.log


def test_data_hosts_that_serve_different_data_are_refused_by_name(service: Service) -> None:
    ports = [service.serve("Numbers", count, batch_size=10)[1] for count in (100, 110)]
    rank = service.take(ports, prefetch=1, step=0.5, epochs=100)
    assert rank.wait() == 1
    assert "ServersDifferError" in rank.log
    assert "'samples': 100" in rank.log
    assert "'samples': 110" in rank.log


@pytest.mark.parametrize("world", [1, 2])
def test_data_hosts_whose_samples_have_another_order_are_refused_before_a_batch_is_taken(
    service: Service, world: int
) -> None:
    ports = [service.serve("Unsorted", 200, batch_size=5)[1] for _ in range(2)]
    ranks = [service.take(ports, rank=rank, world=world) for rank in range(world)]
    assert [rank.wait() for rank in ranks] == [1] * world
    assert all(
        "ServersDifferError: the data servers serve different data: 16 of 16 samples" in rank.log for rank in ranks
    )
    assert "sort what lists files (os.listdir, glob)" in ranks[0].log
    assert not [sample for rank in ranks for sample in rank.taken.samples]


def test_chance_in_the_users_code_and_what_tells_of_a_host_are_not_taken_for_other_data(service: Service) -> None:
    ports = [service.serve("Augmented", 200, batch_size=5)[1] for _ in range(2)]
    rank = service.take(ports)
    assert [sample[0] for sample in rank.finish().samples] == list(range(200))
    assert "differ" not in rank.log


def test_data_hosts_whose_samples_may_differ_are_not_compared(service: Service) -> None:
    service.environ["DLC_DATA_COMPARE"] = "0"
    ports = [service.serve("Unsorted", 20, batch_size=5)[1] for _ in range(2)]
    assert len(service.take(ports).finish().samples) == 20


def test_a_rank_with_another_token_is_refused_and_told_what_to_do(service: Service) -> None:
    _, port = service.serve("Numbers", 100)
    rank = service.take([port], environ_token="another", patience=5.0)
    assert rank.wait() == 1
    assert "refuses this job's token; every host needs the same DLC_JOB_TOKEN" in rank.log


def test_a_data_host_with_another_token_is_left_out_and_named(service: Service) -> None:
    (_, port), (_, other) = service.serve("Numbers", 100), service.serve("Numbers", 100, token="another job's")
    rank = service.take([port, other], step=0.025)  # for longer than two seconds: it is asked again each second
    assert sorted(rank.finish().samples) == list(range(100))
    assert rank.log.count(f"no batch is asked from 127.0.0.1:{other}: ") == 1
    assert "refuses this job's token; every host needs the same DLC_JOB_TOKEN" in rank.log


def test_a_data_host_that_serves_tells_its_launcher_so_and_that_others_can_take_over(
    service: Service, tmp_path: Path
) -> None:
    word = tmp_path / "others can take over"
    service.environ["DLC_TAKEOVER_FILE"] = str(word)
    serves = tmp_path / "this host serves"
    service.environ["DLC_SERVES_FILE"] = str(serves)
    host, _ = service.serve("Numbers", 100)
    wait_for(lambda: word.exists() and serves.exists(), lambda: host.log)
    service.environ["DLC_TAKEOVER_FILE"] = str(tmp_path / "no such folder" / "word")
    host, _ = service.serve("Numbers", 100)
    wait_for(lambda: "the launcher cannot be told that others can take over" in host.log, lambda: host.log)
    assert host.process.poll() is None  # it serves all the same


def test_a_port_in_use_is_an_error_of_the_data_host_that_names_the_setting(service: Service, tmp_path: Path) -> None:
    word = tmp_path / "others can take over"
    service.environ["DLC_TAKEOVER_FILE"] = str(word)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        host, port = service.serve("Numbers", 100, taken.getsockname()[1])
        assert host.wait() == 1
    assert not word.exists()  # it would fail again on another host: the job has to end
    assert f"cannot listen at 127.0.0.1:{port}" in host.log
    assert "DLC_DATA_PORT" in host.log


def test_packages_that_do_not_fit_each_other_are_told_as_that_and_not_as_a_port(
    service: Service, tmp_path: Path
) -> None:
    """What the generated code of grpcio-health-checking raises beside a grpcio that is older."""
    package = tmp_path / "packages/grpc_health/v1"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text("raise RuntimeError('the generated code depends on grpcio>=99.1')")
    service.environ["PYTHONPATH"] = f"{tmp_path / 'packages'}{os.pathsep}{service.environ['PYTHONPATH']}"
    host, _ = service.serve("Numbers", 100)
    assert host.wait() == 1
    last = host.log.splitlines()[-1]
    assert "cannot start its control process: grpc_health cannot be imported beside grpcio" in last
    assert "depends on grpcio>=99.1; add grpcio==" in last
    assert "port" not in last.replace("import", "")


def test_strangers_at_the_ports_disturb_nobody(service: Service) -> None:
    """Garbage, a half greeting, a wrong proof, a connection that says nothing, and many of them."""
    host, port = service.serve("Numbers", 3000, batch_size=10)
    rank = service.take([port], step=0.002)
    wait_for(lambda: rank.count > 5, lambda: rank.log)
    sockets = listening([host.process.pid, *host.children()])
    assert len(sockets) == 3  # the control's and two workers': no other one is open
    assert {address for address, _ in sockets} == {"127.0.0.1"}
    strangers = []
    for _, each in sockets:
        for said in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 5000, PROOFLESS, PROOFLESS[:20], b""):
            for _ in range(30):
                sock = socket.create_connection(("127.0.0.1", each), HANGS)
                sock.settimeout(HANGS)
                sock.sendall(said)
                strangers.append((sock, said))
    assert rank.finish().samples == list(range(3000))
    for sock, said in strangers:
        if said.startswith((b"GET", b"\0", PROOFLESS)) and sock.getpeername()[1] != port:
            assert is_closed(sock), said
        sock.close()
    assert host.process.poll() is None


def test_a_control_process_that_is_killed_is_started_again_and_its_end_is_told(service: Service) -> None:
    host, port = service.serve("Numbers", 100)
    wait_for(lambda: "2 workers" in host.log, lambda: host.log)
    for count in range(1, 4):
        control = next(pid for pid in host.children() if ("127.0.0.1", port) in listening([pid]))
        os.kill(control, signal.SIGKILL)
        said = "the control process ended with -9; a new one starts"
        wait_for(lambda count=count, said=said: host.log.count(said) == count, lambda: host.log)
        assert sorted(service.take([port]).finish().samples) == list(range(100))


def test_everything_of_a_data_host_ends_with_its_script_even_when_that_is_killed(service: Service) -> None:
    host, port = service.serve("Numbers", 100)
    service.take([port]).finish()
    children = host.children()
    assert len(children) == 3
    os.kill(host.process.pid, signal.SIGKILL)
    host.process.wait()
    wait_for(lambda: not any(is_running(pid) for pid in children))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_data_host_that_is_told_to_end_ends_well_and_at_once(service: Service, number: int) -> None:
    host, port = service.serve("Hangs", 100, batch_size=100)
    rank = service.take([port])
    wait_for(lambda: "2 workers" in host.log, lambda: host.log)
    os.kill(host.process.pid, number)
    assert host.wait() == 0
    assert host.log.rstrip().endswith("served")
    assert rank.process.poll() is None


def test_a_training_rank_can_stop_the_data_hosts_where_no_launcher_does(service: Service) -> None:
    hosts = [service.serve("Numbers", 100) for _ in range(2)]
    for host, _ in hosts:
        wait_for(lambda host=host: "2 workers" in host.log, lambda host=host: host.log)
    service.take([port for _, port in hosts], stop_servers=True).finish()
    assert [host.wait() for host, _ in hosts] == [0, 0]


def test_a_rank_that_consumes_slower_than_the_data_hosts_make_grows_neither_side(service: Service) -> None:
    """Three gigabytes pass through; neither side holds more than its bound beside what Python itself takes."""
    host, port = service.serve("Large", 1500, batch_size=2)
    small = service.take([service.serve("Numbers", 4)[1]]).finish().end["peak"]
    rank = service.take([port], prefetch_bytes=20_000_000, step=0.001)
    wait_for(lambda: rank.count > 700 or rank.process.poll() is not None, lambda: rank.log)
    workers = [peak_of(pid) for pid in host.children()]
    assert rank.finish().end["peak"] < small + 100_000_000
    assert max(workers) < 150_000_000


def peak_of(pid: int) -> int:
    """The most memory that a process had, in bytes."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def is_closed(sock: socket.socket) -> bool:
    """By the other side, after what it said."""
    try:
        while sock.recv(4096):
            pass
    except ConnectionError:
        return True
    except OSError:
        return False
    return True


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
