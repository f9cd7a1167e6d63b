"""`dlc build` on a real engine, with a framework of one small package: built, skipped, kept secret, cleaned up."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dlc.core.cache import cache_folder
from dlc.core.checkout import read_tree
from dlc.debian import recorded as debian
from dlc.debian import rootfs
from harness import toy
from harness.engine import docker
from harness.toy import command, dlc, environment, make_checkout

pytestmark = pytest.mark.integration

REPOSITORY = "dlc-toy"
REF = toy.ref(REPOSITORY)


@pytest.fixture(scope="module")
def checkout(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the sources with one more framework: a buildspec, a Dockerfile and a lock that dlc itself resolves."""
    root = tmp_path_factory.mktemp("checkout")
    make_checkout(root, REPOSITORY)
    yield root
    docker("image", "rm", "--force", REF, check=False)


@pytest.fixture(scope="module")
def built(checkout: Path) -> Path:
    done = dlc(checkout, "build", "toy-*")
    assert done.returncode == 0, done.stderr
    return checkout


def inspect() -> dict[str, Any]:
    [found] = json.loads(docker("image", "inspect", REF).stdout)
    return dict(found)


def processes(text: str) -> list[int]:
    """Pids on this host, containers' included, whose command line holds a text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if text in (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"):
                found.append(int(folder.name))
    return found


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_new_framework_needs_no_python_and_its_image_runs(built: Path) -> None:
    done = docker("run", "--rm", REF, "python", "-c", "import six; print(six.__version__)")
    assert done.stdout == "1.17.0\n"


def test_result_names_reference_digest_size_seconds_and_the_next_command(built: Path) -> None:
    [result] = json.loads(dlc(built, "build", "toy-*", "--json").stdout)
    assert result["ref"] == REF
    assert result["digest"] == inspect()["Id"]
    assert result["size"] > 50_000_000
    text = dlc(built, "build", "toy-*").stdout
    assert f"docker run --rm {REF} " in text.splitlines()[-1]


def test_equal_content_key_builds_nothing(built: Path) -> None:
    before = inspect()
    done = dlc(built, "build", "toy-*")
    assert "up to date" in done.stdout
    assert "RUN" not in done.stderr
    assert inspect()["Id"] == before["Id"]


def test_changed_launcher_rebuilds_only_its_small_layer(built: Path) -> None:
    before = inspect()
    with (built / "src/entrypoint/launcher.py").open("a") as launcher:
        launcher.write("# one more line\n")
    done = dlc(built, "build", "toy-*")
    assert done.returncode == 0, done.stderr
    assert "python-packages" not in done.stderr
    old, new = before["RootFS"]["Layers"], inspect()["RootFS"]["Layers"]
    assert len(old) == len(new)
    assert [old == new for old, new in zip(old, new, strict=True)].count(False) <= 2


def test_only_what_was_asked_for_becomes_an_image_and_no_parent(built: Path) -> None:
    with (built / "src/entrypoint/launcher.py").open("a") as launcher:
        launcher.write("# and another line\n")
    done = dlc(built, "build", "toy-*")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("exporting to image") == 1


def test_secrets_and_proxies_reach_the_build_and_no_layer_log_or_label(built: Path, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine example.invalid login someone password correct-horse\n")
    recipe = built / "docker/toy/Dockerfile"
    text = recipe.read_text()
    recipe.write_text(text + 'RUN --mount=type=secret,id=netrc test -s /run/secrets/netrc && test -n "$NO_PROXY"\n')
    done = dlc(built, "build", "toy-*", NETRC=str(netrc), NO_PROXY="battery.invalid")
    recipe.write_text(text)
    assert done.returncode == 0, done.stderr
    archive = tmp_path / "image.tar"
    docker("save", "--output", str(archive), REF)
    traces = [archive.read_bytes(), _newest_log().read_bytes(), done.stdout.encode(), done.stderr.encode()]
    for secret in (b"correct-horse", b"battery.invalid"):
        assert not any(secret in trace for trace in traces)


def _newest_log() -> Path:
    return max((cache_folder() / "logs").glob("*-build.log"))


def test_failing_step_is_reported_with_its_last_lines_and_the_log(built: Path) -> None:
    done = dlc(built, "build", "toy-*", "--set", "os_packages=[no-such-package]")
    assert done.returncode == 70
    assert "Unable to locate package no-such-package" in done.stderr
    assert Path(done.stderr.partition("log: ")[2].split()[0]).is_file()
    assert "Traceback" not in done.stderr


def test_base_image_that_does_not_exist_is_named(built: Path) -> None:
    done = dlc(built, "build", "toy-*", "--set", "base.image=no-such-image.invalid/none:1")
    assert done.returncode == 68
    assert "no-such-image.invalid/none:1" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_build_leaves_no_process_and_the_next_one_resumes(number: signal.Signals, built: Path) -> None:
    recipe = built / "docker/toy/Dockerfile"
    sleep = f"sleep 8.{time.time_ns() % 10**6:06d}"  # no former run has it in the cache
    recipe.write_text(recipe.read_text() + f"RUN {sleep}\n")
    argv = command("build", "toy-*")
    child = subprocess.Popen(
        argv, cwd=built, env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while not processes(sleep) and time.monotonic() < deadline:
        time.sleep(0.1)
    clients = children(child.pid)
    assert clients, child.poll()
    os.kill(child.pid, number)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors
    while (left := [*processes(sleep), *(pid for pid in clients if Path(f"/proc/{pid}").exists())]) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.1)
    assert not left
    done = dlc(built, "build", "toy-*")
    assert done.returncode == 0, done.stderr


def test_base_image_that_the_user_names_is_built_on(built: Path) -> None:
    recorded = debian.recorded(read_tree(built), "bookworm")
    tar = rootfs.folder("bookworm", recorded, cache_folder()) / "rootfs.tar"
    named = REF.replace("dlc-toy/", "dlc-toy-named/")
    docker("import", str(tar), "dlc-toy-base:1")
    try:
        done = dlc(built, "build", "toy-*", "--set", "base.image=dlc-toy-base:1", "--set", "repository=dlc-toy-named")
        assert done.returncode == 0, done.stderr
        ran = docker(
            "run", "--rm", REF.replace("dlc-toy/", "dlc-toy-named/"), "python", "-c", "import six; print('ok')"
        )
        assert ran.stdout == "ok\n"
        sets = ("--set", "base.image=dlc-toy-base:1", "--set", "repository=dlc-toy-named")
        assert "up to date" in dlc(built, "plan", "toy-*", "--engine", *sets).stdout
        docker("import", "--change", "ENV MOVED=1", str(tar), "dlc-toy-base:1")
        assert "was built from" in dlc(built, "plan", "toy-*", "--engine", *sets).stdout
    finally:
        docker("image", "rm", "--force", "dlc-toy-base:1", named, check=False)
