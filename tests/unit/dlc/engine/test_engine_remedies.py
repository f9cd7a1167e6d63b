"""What is advised to a user who reaches no engine works for this user: by who it is, and by whose the socket is."""

from __future__ import annotations

import grp
import os
from pathlib import Path
from typing import Any

import pytest

from dlc.engine import remedies

STARTING = "dlc engine start"


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who is not root and is in no group of an engine."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "getgroups", lambda: [1000])
    monkeypatch.setattr(remedies, "_user_name", lambda: "ada")


def owned_by(number: int, monkeypatch: pytest.MonkeyPatch, *members: str) -> str:
    """Return the address of a socket that belongs to a group of these members."""
    state = list(Path("/dev/null").stat())
    state[5] = number
    monkeypatch.setattr(Path, "stat", lambda *_, **__: os.stat_result(state))
    name = "root" if number == 0 else "engines"
    monkeypatch.setattr(grp, "getgrgid", lambda _: grp.struct_group((name, "x", number, list(members))))
    return "unix:///run/docker.sock"


def test_root_may_install_an_engine_or_have_one_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert remedies.advise_without_engine().startswith("install Docker Engine with its buildx plug-in and start it")
    assert STARTING in remedies.advise_on_silence()


def test_an_ordinary_user_is_told_of_rootless_docker_of_the_group_and_of_sudo(
    ordinary: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DLC_ENGINE", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    said = remedies.advise_without_engine()
    assert "rootless Docker" in said
    assert "sudo usermod -aG docker ada, and log in again" in said
    assert "run dlc with sudo" in said
    assert STARTING not in said + remedies.advise_on_silence()


def test_sudo_is_not_advised_where_root_could_start_none_either(
    ordinary: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setenv("DLC_ENGINE", "off")
    assert "run dlc with sudo" not in remedies.advise_without_engine()
    monkeypatch.delenv("DLC_ENGINE")
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "run dlc with sudo" not in remedies.advise_without_engine()


def test_a_user_who_is_not_in_the_sockets_group_is_told_to_join_that_group(
    ordinary: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = remedies.advise_refused(owned_by(777, monkeypatch))
    assert said == "sudo usermod -aG engines ada, and log in again; or run dlc with sudo"


def test_a_user_who_joined_the_group_after_the_login_is_told_to_log_in_again(
    ordinary: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = remedies.advise_refused(owned_by(777, monkeypatch, "ada"))
    assert said.startswith("log in again, or: newgrp engines (ada is in that group")
    assert "usermod" not in said


def test_a_user_whom_the_sockets_group_does_not_help_is_not_told_to_join_it(
    ordinary: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = remedies.advise_refused(owned_by(1000, monkeypatch, "ada"))
    assert said.startswith("run dlc with sudo: the group of /run/docker.sock is yours")


def test_where_the_group_is_missing_it_is_made_and_the_engine_started_again(
    ordinary: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = remedies.advise_refused(owned_by(0, monkeypatch))
    assert said.startswith("sudo groupadd --force docker; sudo systemctl restart docker; sudo usermod -aG docker ada")


def test_a_socket_in_a_closed_folder_is_for_sudo_alone(ordinary: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: Any, **__: Any) -> os.stat_result:
        raise PermissionError

    monkeypatch.setattr(Path, "stat", closed)
    said = remedies.advise_refused("unix:///root/.cache/dlc/engine/docker.sock")
    assert said == "run dlc with sudo: only its owner may open the folder of /root/.cache/dlc/engine/docker.sock"


@pytest.mark.parametrize("address", [None, "unix:///nowhere/docker.sock"])
def test_a_socket_that_cannot_be_looked_at_is_taken_for_one_of_the_group_docker(
    address: str | None, ordinary: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remedies, "SOCKET", Path("/nowhere/docker.sock"))
    assert remedies.advise_refused(address) == "sudo usermod -aG docker ada, and log in again; or run dlc with sudo"


def test_an_engine_behind_ssh_needs_a_key_and_no_group(ordinary: None) -> None:
    said = remedies.advise_unreached("Permission denied (publickey)", "ssh://ada@far", "DOCKER_HOST")
    assert "ssh ada@far" in said
    assert "usermod" not in said


def test_the_group_of_this_host_helps_with_no_engine_of_another(ordinary: None) -> None:
    assert remedies.advise_refused("tcp://far:2376") == "let ada use tcp://far:2376"


def test_root_who_is_refused_is_not_told_to_use_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    said = remedies.advise_refused("unix:///run/docker.sock")
    assert "sudo" not in said
    assert "/run/docker.sock" in said


def test_only_an_engine_that_is_not_there_is_given_up_by_unsetting_the_variable(ordinary: None) -> None:
    assert remedies.advise_unreached("no such host", "tcp://x:1", "DOCKER_HOST") == "start it, or unset DOCKER_HOST"
    assert "unset" not in remedies.advise_unreached("Permission denied", None, "DOCKER_CONTEXT")
