"""Servers of tf.data.service that are asked for: no answer, one answer, no TensorFlow. Needs no TensorFlow."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from service_runs import HANGS, SOURCES

from dlc_runtime import cluster_facts
from dlc_runtime.dataservice.errors import ServersLostError
from dlc_runtime.dataservice.tensorflow import endpoints
from harness.ports import free_port


def test_a_dispatcher_that_does_not_answer_is_named_after_the_patience() -> None:
    where = f"127.0.0.1:{free_port()}"
    with pytest.raises(ServersLostError, match=rf"the dispatcher cannot be reached within 0.1 s: {where}: .*refused"):
        endpoints.wait_for_one([where], "the dispatcher", 0.1)


def test_one_worker_that_answers_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as open_:
        where = f"127.0.0.1:{open_.getsockname()[1]}"
        endpoints.wait_for_one([f"127.0.0.1:{free_port()}", where], "any worker", 60)


@pytest.mark.parametrize("ended", [["algo-1"], ["algo-1", "algo-2"]], ids=["the first", "both"])
def test_data_hosts_whose_programs_have_ended_cost_no_patience(
    ended: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dispatcher is on the first one; of the workers each may answer."""
    told = tmp_path / "ended"
    told.write_text(json.dumps(ended))
    monkeypatch.setenv("DLC_ENDED_HOSTS_FILE", str(told))
    places = {"algo-1": "127.0.0.1", "algo-2": "127.0.0.2"}
    job = cluster_facts.read({"SM_HOSTS": json.dumps([*places]), "DLC_HOST_ADDRESSES": json.dumps(places)})
    servers = [f"{address}:{free_port()}" for address in list(places.values())[: len(ended)]]
    said = f"any worker cannot be reached: the program of {', '.join(ended)} has ended; let it call serve"
    with pytest.raises(ServersLostError, match=said):
        endpoints.wait_for_one(servers, "any worker", HANGS, job=job)
    if len(ended) < len(places):
        with pytest.raises(ServersLostError, match=r"cannot be reached within 0.1 s"):
            endpoints.wait_for_one([*servers, f"127.0.0.2:{free_port()}"], "any worker", 0.1, job=job)
    with pytest.raises(ServersLostError, match=r"cannot be reached within 0.1 s"):
        endpoints.wait_for_one([f"127.0.0.9:{free_port()}"], "a service of another job", 0.1, job=job)


def test_without_tensorflow_both_sides_say_so() -> None:
    """In a Python that sees nothing but its own library."""
    for call in ("distribute(None)", "serve()"):
        code = f"import sys; sys.path.insert(0, {str(SOURCES)!r})\n" + (
            "from dlc_runtime.dataservice import tensorflow as t\n"
            f"try: t.{call}\nexcept ImportError as error: print(type(error).__name__, error)"
        )
        said = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
        assert said.stdout.startswith("MissingPackageError tf.data.service is a part of TensorFlow"), said
