"""tf.data.service with real servers: what arrives, what a lost server costs, who is let in, and how it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from service_runs import SOURCES, wait_for
from tf_data_runs import COUNT, Consumer, DataHost, Job, server, takes_filters, tensorflow_python, wait_until_it_listens

ALL = list(range(COUNT))


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    python = tensorflow_python()
    if python is None:
        pytest.skip("the Python that runs the scripts has no TensorFlow; DLC_TEST_TENSORFLOW_PYTHON names another")
    found = Job(python, tmp_path)
    yield found
    found.close()


@pytest.fixture
def both(job: Job) -> tuple[DataHost, DataHost]:
    """The data hosts, which listen, and have told their launchers that they serve."""
    serves = job.folder / "serves"
    job.environ["DLC_SERVES_FILE"] = str(serves)
    first, second = job.serve("algo-1"), job.serve("algo-2")
    wait_until_it_listens(first, "dispatcher", "worker")
    wait_until_it_listens(second, "worker")
    assert serves.exists()
    return first, second


@pytest.fixture
def consumer(job: Job, both: tuple[DataHost, DataHost]) -> Consumer:
    """A training process that has taken some of its first epoch's elements, and waits."""
    found = job.consume(both[0])
    found.wait_until_it_waits()
    return found


def is_reached(address: str, port: int) -> bool:
    with contextlib.suppress(TimeoutError):
        socket.create_connection((address, port), timeout=1).close()
        return True
    return False


def assert_at_most_once(taken: list[int]) -> None:
    assert len(taken) == len(set(taken)), "an element came twice"
    assert set(taken) <= set(ALL)


def test_every_element_of_each_epoch_arrives_once_from_two_workers_and_the_hosts_end_when_told(
    job: Job, both: tuple[DataHost, DataHost], consumer: Consumer
) -> None:
    assert [sorted(epoch) for epoch in consumer.go_on()] == [ALL, ALL]
    assert list((job.folder / "run").iterdir()), "the journal is not in the job's private folder"
    for host in both:
        servers = host.children()
        os.kill(host.process.pid, signal.SIGTERM)
        assert host.wait() == 0, host.log
        assert not any(Path(f"/proc/{pid}").exists() for pid in servers)
    assert list((job.folder / "run").iterdir()) == []


def test_two_training_processes_share_an_epochs_elements(
    job: Job, both: tuple[DataHost, DataHost], consumer: Consumer
) -> None:
    second = job.consume(both[0])
    second.wait_until_it_waits()
    one, other = consumer.go_on(), second.go_on()
    assert sorted(one[0] + other[0]) == ALL
    assert sorted(one[1] + other[1]) == ALL


def test_the_elements_that_a_killed_training_process_had_not_taken_go_to_the_other(
    job: Job, both: tuple[DataHost, DataHost], consumer: Consumer
) -> None:
    killed = job.consume(both[0])
    killed.wait_until_it_waits()
    killed.process.kill()
    shared, own = consumer.go_on()
    assert_at_most_once(shared)
    assert COUNT / 2 < len(shared) < COUNT
    assert sorted(own) == ALL


def test_what_two_training_processes_lack_of_an_epoch_is_added_up_and_told_once(
    job: Job, both: tuple[DataHost, DataHost]
) -> None:
    job.environ["HOROVOD_SIZE"] = "2"
    consumers = [job.consume(both[0]), job.consume(both[0])]
    for each in consumers:
        each.wait_until_it_waits()
    os.kill(server(both[1], "worker"), signal.SIGKILL)
    wait_until_it_listens(both[1], "worker", times=2)
    (broken, whole), (other_broken, other_whole) = (each.go_on() for each in consumers)
    assert sorted(whole + other_whole) == ALL
    came = len(broken + other_broken)
    assert_at_most_once(broken + other_broken)
    assert came < COUNT, "the worker had nothing in hand"
    said = f"ended with {came} of {COUNT} elements: {COUNT - came} are lost"
    # When it is known, and at the end of the process that was through last.
    assert sorted(each.log.count(said) for each in consumers) == [0, 2]
    assert not any("nobody adds up" in each.log for each in consumers)


def test_a_worker_that_is_killed_is_started_again_and_no_element_comes_twice(
    both: tuple[DataHost, DataHost], consumer: Consumer
) -> None:
    _, second = both
    os.kill(server(second, "worker"), signal.SIGKILL)
    wait_until_it_listens(second, "worker", times=2)
    broken, whole = consumer.go_on()
    assert_at_most_once(broken)
    assert sorted(whole) == ALL
    said = f"ended with {len(broken)} of {COUNT} elements: {COUNT - len(broken)} are lost"
    assert consumer.log.count(said) == (2 if len(broken) < COUNT else 0)  # when it is known, and at the end


def test_killed_workers_of_a_shuffled_dataset_take_their_buffer_along_and_the_epoch_says_so(
    job: Job, both: tuple[DataHost, DataHost]
) -> None:
    consumer = job.consume(both[0], shuffle=COUNT)
    consumer.wait_until_it_waits()
    for host in both:
        os.kill(server(host, "worker"), signal.SIGKILL)
        wait_until_it_listens(host, "worker", times=2)
    broken, whole = consumer.go_on()
    assert_at_most_once(broken)
    assert sorted(whole) == ALL
    assert f"takes a whole buffer ({COUNT} elements) and makes them alone, and they are lost if it dies" in consumer.log
    said = f"ended with {len(broken)} of {COUNT} elements: {COUNT - len(broken)} are lost"
    assert consumer.log.count(said) == (2 if len(broken) < COUNT else 0)


def test_a_data_host_whose_program_has_ended_costs_the_training_no_patience(job: Job, tmp_path: Path) -> None:
    told = tmp_path / "ended"
    told.write_text('["algo-1"]')
    job.environ["DLC_ENDED_HOSTS_FILE"] = str(told)
    first = job.serve("algo-1")
    first.kill()
    consumer = job.consume(first)
    assert consumer.wait() == 1
    assert "the dispatcher cannot be reached: the program of algo-1 has ended; let it call serve()" in consumer.log


def test_the_workers_share_the_examples_images(job: Job, both: tuple[DataHost, DataHost]) -> None:
    example = SOURCES.parent / "examples/heterogeneous/tensorflow/train.py"
    made = job.answer_of(both[0], "take_example.py", str(example))
    assert sum(made.values()) == 400
    assert len(made) == 2
    assert min(made.values()) >= 40, "a shuffle before distribute gives all to one"


def test_a_pipeline_that_does_not_suit_is_told_and_what_is_missed_is_counted(job: Job) -> None:
    said = job.answer_of(None, "pipelines.py")
    (shuffle,), (files,) = said["shuffle"], said["list_files"]
    assert "a shuffle comes before it" in shuffle
    assert "(500 elements)" in shuffle
    assert "(2 elements)" in files
    for each in ("list_files in order", "shuffle where each worker has all", "shuffle within a part"):
        assert said[each] == []
    for each in ("py_function", "numpy_function in a part", "from_generator"):
        assert "do it after distribute, on this host" in said[each][0]
    for each, name in (
        *((name, name) for name in ("take", "skip", "shard", "unique")),
        *(("enumerate", "zip or enumerate"), ("zip", "zip or enumerate"), ("take while", "take_while")),
        *(("a running state", "scan or counter"), ("assert", "assert_cardinality")),
    ):
        (refusal,) = said[each]
        assert f"distribute: {name} before it: each worker does that with its own part" in refusal
        assert "Do it after distribute" in refusal
    for each, name in (("snapshot", "snapshot"), ("csv", "CsvDataset")):
        assert f"distribute: {name} comes before it, of which TensorFlow can give no worker a part" in said[each][0]
    for each in ("twice", "twice, counted"):
        assert "the dataset comes from distribute already; call it once" in said[each][0]
    for each in ("take within a part", "take all", "take where each worker has all"):
        assert said[each] == []
    assert said["snapshot where each worker has all"] == []
    assert "With one data host, as here, it does no harm" in said["take of one"][0]
    assert "(NAME) ended with 900 of 960 elements: 60 are lost" in said["samples"][0]
    assert "(NAME) ended with 900 of 960 elements: 60 are lost" in said["elements"][0]
    assert "(NAME) ended with 28 of 30 elements: 2 are lost" in said["batches"][0]
    # Each case begins two epochs.
    assert said["two took it"] == []
    assert said["another one is not through"] == []
    assert said["all came"] == said["a batch left out"] == said["unknown"] == []


def test_a_dispatcher_that_is_killed_goes_on_from_its_journal(
    both: tuple[DataHost, DataHost], consumer: Consumer
) -> None:
    first, _ = both
    os.kill(server(first, "dispatcher"), signal.SIGKILL)
    wait_until_it_listens(first, "dispatcher", times=2)
    broken, whole = consumer.go_on()
    assert_at_most_once(broken)
    assert len(broken) > COUNT // 2, "the epoch did not go on"
    assert sorted(whole) == ALL


@pytest.mark.skipif(not takes_filters(), reason="this kernel wants CAP_NET_ADMIN for a packet filter")
def test_servers_hear_only_what_is_sent_to_their_hosts_own_address(job: Job) -> None:
    first = job.serve("algo-1", DLC_TF_DATA_OPEN="")
    wait_until_it_listens(first, "dispatcher", "worker")
    for port in (job.port, first.worker_port):
        assert is_reached("127.0.0.1", port)
        assert not is_reached("127.0.0.9", port)


def test_servers_end_with_their_hosts_process_even_if_that_is_killed(job: Job) -> None:
    first = job.serve("algo-1")
    wait_until_it_listens(first, "dispatcher", "worker")
    servers = first.children()
    os.kill(first.process.pid, signal.SIGKILL)
    for pid in servers:
        wait_for(lambda pid=pid: not _runs(pid), lambda: first.log)


def test_a_port_that_is_in_use_ends_the_host_and_names_the_variable(job: Job) -> None:
    with socket.create_server(("127.0.0.1", job.port)):
        first = job.serve("algo-1")
        assert first.wait() == 69, first.log
    assert f"the dispatcher of tf.data.service on algo-1 cannot serve at 127.0.0.1:{job.port}" in first.log
    assert "Address already in use" in first.log
    assert "DLC_TF_DATA_PORT on every host" in first.log


def _runs(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    return False
