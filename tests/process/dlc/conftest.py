"""Fixtures of several files: an engine of processes with a cache of its own, a registry, a shop of signed images."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dlc.core.checkout import find_root
from harness.registry import Registry

if TYPE_CHECKING:
    from verify_shop import Shop

ROOT = find_root(Path(__file__))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with stand_in_docker.py as the docker client on PATH."""
    client = tmp_path / "bin/docker"
    client.parent.mkdir()
    client.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).parent / "stand_in_docker.py"} "$@"\n')
    client.chmod(0o755)
    (tmp_path / "docker").mkdir()
    for name, value in {
        "PATH": f"{client.parent}:{os.environ['PATH']}",
        "STAND_IN_DOCKER": str(tmp_path / "docker"), "DOCKER_HOST": f"unix://{tmp_path}/docker.sock",
        "DLC_CACHE_DIR": str(tmp_path / "cache"),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    yield tmp_path
    for container in (tmp_path / "docker").glob("*.container"):
        subprocess.run([client, "rm", "--force", "--volumes", container.stem], check=True)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    running = Registry(tmp_path_factory.mktemp("registry"))
    running.start()
    yield running
    running.kill()


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    """A path in the registry that no other test has."""
    return "".join(each if each.isalnum() else "-" for each in request.node.name.lower())[-60:].strip("-")


@pytest.fixture
def shop(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Shop:
    # It imports cryptography, which few tests need.
    from verify_shop import open_shop

    return open_shop(registry, tmp_path, request.node.nodeid, monkeypatch)
