"""A user who is not root is told which ways to an engine are open here, what to type, and what closes the others."""

from __future__ import annotations

import grp
import os
from pathlib import Path

import pytest

from dlc.engine import ways_without_root
from dlc.engine.ways_without_root import describe_ways, find_ways


class Host:
    """What a test says of this machine."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.programs = {"newuidmap", "sudo"}
        self.groups = {"sudo": 27, "docker": 999}
        self.namespaces, self.ranges = folder / "namespaces", folder / "subuid"
        self.namespaces.write_text("15000\n")
        self.ranges.write_text("bob:100000:65536\nada:165536:65536\n")
        monkeypatch.setattr(ways_without_root, "NAMESPACES", self.namespaces)
        monkeypatch.setattr(ways_without_root, "RANGES", self.ranges)
        monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}" if name in self.programs else None)
        monkeypatch.setattr(os, "getgroups", lambda: [1000, 27])
        monkeypatch.setattr(grp, "getgrnam", self._find_group)

    def _find_group(self, name: str) -> grp.struct_group:
        return grp.struct_group((name, "x", self.groups[name], []))

    def say(self, *, can_start: bool = True) -> str:
        return describe_ways(find_ways("ada", "docker", can_start=can_start))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def test_all_ways_are_told_where_nothing_closes_one(host: Host) -> None:
    assert host.say().split("; or ") == [
        "install rootless Docker with its buildx plug-in: https://docs.docker.com/engine/security/rootless",
        "sudo usermod -aG docker ada, and log in again",
        "run dlc with sudo, which starts one that only root can use",
        "set DOCKER_HOST to one that runs",
    ]
    host.programs.add(ways_without_root.SETUP)
    assert host.say().startswith("rootless Docker: dockerd-rootless-setuptool.sh install; or ")


@pytest.mark.parametrize("closed", ["sudo", "groups"])
def test_without_sudo_two_of_the_three_need_an_administrator(closed: str, host: Host) -> None:
    if closed == "sudo":
        host.programs.discard("sudo")
    else:
        del host.groups["sudo"]
    here, _, elsewhere = host.say().partition(". Not open to you here: ")
    assert [way.partition(" ")[0] for way in here.split("; or ")] == ["install", "set"]
    assert "run dlc with sudo" in elsewhere
    assert "sudo usermod" in elsewhere
    why = "no program sudo" if closed == "sudo" else "you are in none of the groups sudo, wheel, admin"
    assert elsewhere.count(f"({why}; an administrator can)") == 2


def test_what_closes_rootless_docker_is_told_with_what_opens_it(host: Host) -> None:
    host.ranges.write_text("bob:100000:65536\n")
    assert "no line of ada in" in host.say()
    assert "an administrator: usermod --add-subuids" in host.say()
    host.programs.discard("newuidmap")
    assert "no program newuidmap; an administrator installs the package uidmap" in host.say()
    host.namespaces.write_text("0\n")
    assert f"({host.namespaces} is 0)" in host.say()


def test_a_host_without_the_group_has_no_engine_yet_and_where_none_can_be_started_sudo_helps_nobody(host: Host) -> None:
    del host.groups["docker"]
    said = host.say(can_start=False)
    assert "install Docker Engine with its buildx plug-in, then: sudo usermod -aG docker ada" in said
    assert "run dlc with sudo" not in said
