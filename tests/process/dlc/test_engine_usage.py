"""Which engine is ours and who is connected to it, shown with sockets and programs of this host."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from dlc.core.errors import EngineError
from dlc.engine.connection import find_engine
from dlc.engine.private_engine import PrivateEngine
from dlc.engine.usage import count_connections


def test_silent_docker_host_is_an_error_and_no_other_engine_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(EngineError, match="no engine answers there") as caught:
        find_engine()
    assert "DOCKER_HOST" in caught.value.remedy


def test_pid_file_of_another_program_is_not_our_engine(tmp_path: Path) -> None:
    (tmp_path / "docker.pid").write_text("1")
    engine = PrivateEngine(tmp_path)
    assert engine.pid() is None
    assert engine.stop() is False


def test_connections_to_a_socket_are_counted_without_the_one_that_listens(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(str(path))
        listener.listen()
        assert count_connections(path) == 0
        client.connect(str(path))
        accepted, _ = listener.accept()
        assert count_connections(path) == 1
        accepted.close()


def test_a_connection_whose_client_is_gone_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(str(path))
        listener.listen()
        client.connect(str(path))
        accepted, _ = listener.accept()
        client.close()
        assert count_connections(path) == 0
        accepted.close()
