"""stop_targets: who hears of a stop at once, as a function of a process tree."""

from __future__ import annotations

import pytest

from launch.supervision.stop_targets import Process, first_to_stop, is_wrapper

PYTHON = ("/opt/venv/bin/python", "train.py")
WORKER = ("/opt/venv/bin/python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(5)")
TRACKER = ("/opt/venv/bin/python", "-c", "from multiprocessing.resource_tracker import main;main(7)")
WRAPPER = ("/usr/bin/python3", "-IS", "/opt/dlc/entrypoint/programs/torch_rank.py", "train.py")
MPI_HOST = ("/usr/bin/python3", "-I", "-S", "/opt/dlc/entrypoint/programs/mpi_host.py", "site.json")
MPI_WRAPPER = ("/usr/bin/python3", "-I", "-S", "/opt/dlc/entrypoint/programs/mpi_rank.py", "env.json", "python")
TORCHRUN = ("/opt/venv/bin/python3.11", "/opt/venv/bin/torchrun", "--nnodes", "1", "train.py")


def found(*processes: Process, planned: int = 10) -> set[int]:
    return set(first_to_stop(processes, [planned]))


def test_a_planned_program_is_the_main_one_and_its_children_are_not() -> None:
    assert found(Process(10, 1, PYTHON), Process(11, 10, WORKER), Process(12, 10, TRACKER)) == {10}


def test_ranks_below_torchrun_are_main_and_torchrun_and_their_workers_are_not() -> None:
    tree = [
        Process(10, 1, TORCHRUN),
        *(Process(20 + n, 10, WRAPPER) for n in range(2)),
        *(Process(30 + n, 20 + n, PYTHON) for n in range(2)),
        *(Process(40 + n, 30, WORKER) for n in range(2)),
        Process(50, 10, TRACKER),
    ]
    assert found(*tree) == {30, 31}


@pytest.mark.parametrize(
    "starter",
    [
        ("python", "-m", "torch.distributed.run", "train.py"),
        ("python3", "-u", "-m", "torch.distributed.launch", "train.py"),
        ("/opt/venv/bin/python", "/opt/venv/bin/accelerate", "launch", "train.py"),
        ("/opt/venv/bin/python", "/opt/venv/bin/deepspeed", "train.py"),
        ("python", "-m", "deepspeed.launcher.launch", "train.py"),
        ("/opt/venv/bin/python", "/opt/venv/bin/horovodrun", "-np", "2", "python", "train.py"),
        ("mpirun", "-np", "2", "python"),
        ("/bin/bash", "./run.sh"),
        ("timeout", "3600", "python", "train.py"),
    ],
)
def test_what_only_starts_others_is_passed_over(starter: tuple[str, ...]) -> None:
    assert is_wrapper(starter)
    assert found(Process(10, 1, starter), Process(11, 10, PYTHON), Process(12, 10, PYTHON)) == {11, 12}


@pytest.mark.parametrize(
    "words",
    [
        ("python", "launch.py"),
        ("python", "-c", "torchrun"),
        ("accelerate", "config"),
        ("python", "my/mpirun_test.py"),
        (),
    ],
)
def test_names_that_only_look_like_a_starters_are_none(words: tuple[str, ...]) -> None:
    assert not is_wrapper(words)


@pytest.mark.parametrize("agent", [("/usr/bin/ssh", "-x"), ("/usr/bin/python3", "-I", "-S", "/opt/mpi_agent.py")])
def test_what_mpirun_starts_other_hosts_with_is_left_alone(agent: tuple[str, ...]) -> None:
    tree = [
        Process(10, 1, ("mpirun", "--host", "a,b")),
        Process(11, 10, (*agent, "b", "orted")),
        Process(12, 10, MPI_WRAPPER),
        Process(13, 12, PYTHON),
    ]
    assert found(*tree) == {13}


def test_remote_ranks_are_found_below_sshd_and_orted() -> None:
    tree = [
        Process(10, 1, ("/usr/sbin/sshd", "-D")),
        Process(11, 10, ("sshd: root@notty",)),
        Process(12, 11, ("sh", "-c", "orted --daemonize")),
        Process(13, 12, ("orted", "-mca", "x", "y")),
        Process(14, 13, MPI_WRAPPER),
        Process(15, 14, PYTHON),
    ]
    assert found(*tree) == {15}


def test_remote_ranks_are_found_below_an_orted_that_stays_in_the_foreground() -> None:
    tree = [
        Process(10, 1, MPI_HOST),
        Process(12, 10, ("/bin/sh", "-c", "orted")),
        Process(13, 12, ("orted", "-mca", "x", "y")),
        Process(14, 13, MPI_WRAPPER),
        Process(15, 14, PYTHON),
    ]
    assert found(*tree) == {15}


def test_remote_ranks_are_found_below_an_orted_that_made_itself_a_daemon() -> None:
    tree = [
        Process(10, 1, MPI_HOST),
        Process(13, 1, ("orted", "-mca", "x", "y")),
        Process(14, 13, MPI_WRAPPER),
        Process(15, 14, PYTHON),
        Process(16, 1, ("python", "daemon.py")),
    ]
    assert set(first_to_stop(tree, [10], adopter=1)) == {10, 15}


def test_a_starter_that_has_started_nothing_yet_is_told_itself() -> None:
    assert found(Process(10, 1, TORCHRUN)) == {10}
    assert found(Process(10, 1, TORCHRUN), Process(20, 10, WRAPPER)) == {20}


def test_a_filter_behind_the_training_is_not_main() -> None:
    tree = [
        Process(10, 1, ("bash", "run.sh")),
        Process(11, 10, PYTHON, writes=("pipe:[1]",)),
        Process(12, 10, ("tee", "log"), reads="pipe:[1]"),
    ]
    assert found(*tree) == {11}


def test_whoever_reads_what_the_training_writes_is_not_main() -> None:
    tree = [
        Process(10, 1, ("bash", "run.sh")),
        Process(11, 10, PYTHON, writes=("pipe:[1]",)),
        Process(12, 10, ("python", "filter_log.py"), reads="pipe:[1]"),
    ]
    assert found(*tree) == {11}


def test_a_training_that_reads_from_cat_is_main() -> None:
    tree = [
        Process(10, 1, ("sh", "run.sh")),
        Process(11, 10, ("cat", "data"), writes=("pipe:[1]",)),
        Process(12, 10, PYTHON, reads="pipe:[1]"),
    ]
    assert found(*tree) == {12}


def test_a_shell_with_a_trap_and_its_foreground_child_are_main_but_not_what_the_trap_cares_for() -> None:
    shell = Process(10, 1, ("bash", "run.sh"), traps_stop=True)
    assert found(shell, Process(11, 10, PYTHON)) == {10, 11}
    assert found(shell, Process(11, 10, PYTHON, in_background=True)) == {10}
    assert found(shell, Process(11, 10, ("sleep", "1"))) == {10}


def test_each_is_named_once_whatever_was_planned() -> None:
    tree = [Process(10, 1, ("bash", "run.sh")), Process(11, 10, PYTHON)]
    assert first_to_stop(tree, [10, 11, 99]) == [11]
