"""`dlc build` on a real engine, with a framework of one small package: built, skipped, kept secret, cleaned up."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dlc.buildspec.locks import os_packages
from dlc.core.checkout import read_tree
from dlc.core.environment import cache_folder
from dlc.core.errors import BaseImageError, BuildError, UsageError
from dlc.debian import rootfs, suites
from dlc.inspection.archive import WHITEOUT, read_archive
from harness import toy
from harness.engine import HANG_BOUND, connect, docker
from harness.toy import command, dlc, environment, make_checkout

pytestmark = [pytest.mark.integration, pytest.mark.timeout(4 * toy.BUILD_SECONDS)]  # a test has up to four builds

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


def wait_until(holds: Callable[[], bool], what: str, build: subprocess.Popen[str] | None = None) -> None:
    """The test fails where it does not come true, or where the build ends before."""
    deadline = time.monotonic() + HANG_BOUND
    while not holds():
        assert build is None or build.poll() is None, f"the build has ended before {what}"
        assert time.monotonic() < deadline, f"not so after {HANG_BOUND:g} s: {what}"
        time.sleep(0.1)


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
    assert re.search(r"(?m)^  builds toy-\S+: \S+ was built from .*; about \d+ MB; last time \d+ s$", done.stderr)
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
    words = '--mount=type=secret,id=netrc test -s /run/secrets/netrc && test -n "$NO_PROXY"'
    recipe.write_text(text + toy.step(words))
    done = dlc(built, "build", "toy-*", NETRC=str(netrc), NO_PROXY="battery.invalid")
    recipe.write_text(text)
    assert done.returncode == 0, done.stderr
    archive = tmp_path / "image.tar"
    docker("save", "--output", str(archive), REF)
    traces = [archive.read_bytes(), _newest_log().read_bytes(), done.stdout.encode(), done.stderr.encode()]
    for secret in (b"correct-horse", b"battery.invalid"):
        assert not any(secret in trace for trace in traces)


def _newest_log() -> Path:
    """Of this file's image: other tests build beside it."""
    return max(log for log in (cache_folder() / "logs").glob("*-build.log") if f"/{REF} " in log.read_text())


def cached_steps(log: str) -> dict[str, bool]:
    """Each step of a log by its stage and number, as in `framework 2/2`: whether BuildKit took it from its cache."""
    names = dict(re.findall(r"^(#\d+) \[\S+ (\S+ \d+/\d+)\] RUN ", log, re.MULTILINE))
    cached = set(re.findall(r"^(#\d+) CACHED", log, re.MULTILINE))
    found: dict[str, bool] = {}
    for number, name in names.items():
        found[name] = found.get(name, True) and number in cached
    return found


@pytest.mark.long
def test_a_changed_debian_version_runs_no_step_of_the_framework_or_its_packages(built: Path) -> None:
    assert dlc(built, "build", "toy-*").returncode == 0  # an earlier test may have built it from other sources
    before = inspect()["RootFS"]["Layers"]
    path = built / suites.versions_path("bookworm")
    recorded = path.read_text()
    path.write_text(recorded + f"no-such-package-{uuid.uuid4().hex}=1.0\n")  # an engine remembers what it has built
    try:
        done = dlc(built, "build", "toy-*")
    finally:
        path.write_text(recorded)
    assert done.returncode == 0, done.stderr
    steps = cached_steps(_newest_log().read_text())
    assert steps["base 1/2"] is False, steps
    of_python = {name: cached for name, cached in steps.items() if name.startswith(("framework", "training"))}
    assert of_python, steps
    assert all(of_python.values()), steps
    assert inspect()["RootFS"]["Layers"] == before  # the same Debian packages, whatever the list says


@pytest.mark.long
def test_a_build_without_any_cache_gives_the_same_layers(built: Path) -> None:
    assert dlc(built, "build", "toy-*").returncode == 0  # an earlier test may have built it from other sources
    done = dlc(built, "verify-reproducible", "toy-*", "--once")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is not built from these sources" not in done.stderr
    [line] = done.stdout.splitlines()
    assert line.endswith(f"  identical  {inspect()['Id']}")


def test_no_layer_deletes_a_file_of_a_lower_one_and_no_time_is_that_of_the_build(built: Path, tmp_path: Path) -> None:
    docker("save", "--output", str(tmp_path / "image.tar"), REF)
    layers = read_archive(tmp_path / "image.tar").layers
    names = [path.rpartition("/")[2] for layer in layers for path in layer.entries]
    assert [name for name in names if name.startswith(WHITEOUT)] == []
    started = (built / suites.versions_path("bookworm")).stat().st_ctime
    late = [path for layer in layers for path, entry in layer.entries.items() if entry.modified >= started]
    assert late == []


@contextlib.contextmanager
def kept_as_known(name: str) -> Iterator[None]:
    """Let dlc take a name for a Debian package, as if that was asked before: else the build does not begin."""
    path = cache_folder() / os_packages.FOLDER / "bookworm" / os_packages.KNOWN
    before = path.read_text() if path.exists() else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{before}{name}\n")
    yield
    path.write_text(before)


def test_failing_step_is_reported_with_its_last_lines_and_the_log(built: Path) -> None:
    with kept_as_known("no-such-package"):
        done = dlc(built, "build", "toy-*", "--set", "os_packages=[no-such-package]")
    assert done.returncode == BuildError.exit_code
    assert "Unable to locate package no-such-package" in done.stderr
    assert Path(done.stderr.partition("log: ")[2].split()[0]).is_file()
    assert "Traceback" not in done.stderr


def test_base_image_that_does_not_exist_is_named(built: Path) -> None:
    done = dlc(built, "build", "toy-*", "--set", "base.image=no-such-image.invalid/none:1")
    assert done.returncode == BaseImageError.exit_code
    assert "no-such-image.invalid/none:1" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_interrupted_build_leaves_no_process_and_the_next_one_resumes(number: signal.Signals, built: Path) -> None:
    recipe = built / "docker/toy/Dockerfile"
    sleep = f"sleep 12.{time.time_ns() % 10**6:06d}"  # no former run has it in the cache
    recipe.write_text(recipe.read_text() + toy.step(sleep))
    argv = command("build", "toy-*")
    child = subprocess.Popen(
        argv, cwd=built, env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    wait_until(lambda: bool(processes(sleep)), "the step runs", child)
    clients = children(child.pid)
    assert clients, child.poll()
    os.kill(child.pid, number)
    _, errors = child.communicate(timeout=HANG_BOUND)
    assert child.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in [*processes(sleep), *clients]), "all is gone")
    done = dlc(built, "build", "toy-*")
    assert done.returncode == 0, done.stderr


def test_base_image_that_the_user_names_is_built_on(built: Path) -> None:
    recorded = suites.read_recorded(read_tree(built), "bookworm")
    tar = rootfs.rootfs_folder("bookworm", recorded, cache_folder()) / "rootfs.tar"
    sets = ("base.image=dlc-toy-base:1", "repository=dlc-toy-named")
    named = toy.changed_ref(built, *sets)
    first = docker("import", str(tar), "dlc-toy-base:1").stdout.strip()
    try:
        done = dlc(built, "build", "toy-*", "--set", sets[0], "--set", sets[1])
        assert done.returncode == 0, done.stderr
        ran = docker("run", "--rm", named, "python", "-c", "import six; print('ok')")
        assert ran.stdout == "ok\n"
        sets = ("--set", "base.image=dlc-toy-base:1", "--set", "repository=dlc-toy-named")
        assert "up to date" in dlc(built, "plan", "toy-*", "--engine", *sets).stdout
        docker("import", "--change", "ENV MOVED=1", str(tar), "dlc-toy-base:1")
        assert "was built from" in dlc(built, "plan", "toy-*", "--engine", *sets).stdout
    finally:
        docker("image", "rm", "--force", "dlc-toy-base:1", first, named, check=False)


def start(root: Path, *words: str, **more: str) -> subprocess.Popen[str]:
    """dlc, running."""
    return subprocess.Popen(
        command(*words), cwd=root, env=environment(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def with_step(root: Path, seconds: int) -> None:
    """One more step of the image, which no former run has in its cache."""
    recipe = root / "docker/toy/Dockerfile"
    recipe.write_text(recipe.read_text() + toy.step(f"sleep {seconds}.{time.time_ns() % 10**6:06d}"))


@pytest.mark.long
def test_with_an_empty_cache_json_is_all_that_stdout_gets(built: Path, tmp_path: Path) -> None:
    with_step(built, 0)
    done = dlc(built, "build", "toy-*", "--json", DLC_CACHE_DIR=str(tmp_path), **connect().environment)
    [result] = json.loads(done.stdout)
    assert result["built"], done.stderr
    assert "base file system" in done.stderr
    assert not any((tmp_path / "drafts").iterdir())


def test_two_builds_of_one_image_at_once_both_end_with_it(built: Path) -> None:
    before = inspect()["Id"]
    with_step(built, 3)
    builds = [start(built, "build", "toy-*", "--json") for _ in range(2)]
    ended = [(*build.communicate(timeout=toy.BUILD_SECONDS), build.returncode) for build in builds]
    assert [code for _, _, code in ended] == [0, 0], ended
    assert {json.loads(output)[0]["digest"] for output, _, _ in ended} == {inspect()["Id"]}
    assert [json.loads(output)[0]["built"] for output, _, _ in ended].count(True) == 1  # the other one waits for it
    assert inspect()["Id"] != before
    assert docker("image", "inspect", before, check=False).returncode  # nobody has it by name


def test_first_builds_of_one_image_at_once_all_end_with_it(built: Path) -> None:
    """One of them builds it, and the others wait for it."""
    with_step(built, 3)
    docker("image", "rm", "--force", REF)
    builds = [start(built, "build", "toy-*", "--json") for _ in range(4)]
    ended = [(*build.communicate(timeout=toy.BUILD_SECONDS), build.returncode) for build in builds]
    assert [code for _, _, code in ended] == [0, 0, 0, 0], ended
    assert {json.loads(output)[0]["digest"] for output, _, _ in ended} == {inspect()["Id"]}
    assert [json.loads(output)[0]["built"] for output, _, _ in ended].count(True) == 1
    assert any("waiting for another dlc" in said for _, said, _ in ended), ended


def test_a_nameless_image_of_another_build_stays(built: Path) -> None:
    docker("tag", REF, "dlc-toy-other:1")
    with_step(built, 0)
    assert dlc(built, "build", "toy-*").returncode == 0
    other = json.loads(docker("image", "inspect", "dlc-toy-other:1").stdout)[0]["Id"]
    docker("tag", REF, "dlc-toy-other:1")  # takes the name from it, as a rebuild somewhere else does
    with_step(built, 0)
    assert dlc(built, "build", "toy-*").returncode == 0
    try:
        assert docker("image", "inspect", other, check=False).returncode == 0
    finally:
        docker("image", "rm", "--force", other, "dlc-toy-other:1", check=False)


def test_a_killed_build_leaves_nothing_that_the_next_one_does_not_clean_up(built: Path, tmp_path: Path) -> None:
    with_step(built, 10)
    for name in ("rootfs", "tools"):
        (tmp_path / name).symlink_to(cache_folder() / name)
    own = {"DLC_CACHE_DIR": str(tmp_path), **connect().environment}  # in the shared folder other builds have drafts too
    step = built.joinpath("docker/toy/Dockerfile").read_text().split()[-1]
    killed = start(built, "build", "toy-*", **own)
    drafts = tmp_path / "logs/drafts"
    wait_until(lambda: bool(processes(step)), "the step runs", killed)
    left = set(drafts.iterdir())
    assert left
    killed.kill()
    killed.communicate()
    done = dlc(built, "build", "toy-*", **own)
    assert done.returncode == 0, done.stderr
    assert not left & set(drafts.iterdir())


def test_a_log_that_cannot_be_written_is_one_error_that_names_its_folder(built: Path, tmp_path: Path) -> None:
    with_step(built, 0)
    for name in ("rootfs", "tools"):
        (tmp_path / name).symlink_to(cache_folder() / name)
    (tmp_path / "logs").write_text("a file in the way")
    done = dlc(built, "build", "toy-*", DLC_CACHE_DIR=str(tmp_path), **connect().environment)
    assert done.returncode == UsageError.exit_code
    assert f"{tmp_path}/logs: expected a folder that dlc can write" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_enough_of_the_progress_does_not_end_the_build(built: Path) -> None:
    with_step(built, 1)
    build = start(built, "build", "toy-*", "--json")
    assert build.stderr
    assert build.stdout
    build.stderr.close()
    assert json.loads(build.stdout.read())[0]["built"]
    build.stdout.close()
    assert build.wait(HANG_BOUND) == 0
