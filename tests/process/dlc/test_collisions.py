"""image_build.run: a build that fails by the engine's fault is run again, up to a bound; nothing else is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dlc.core.errors import BuildError
from dlc.engine.docker_client import Engine
from dlc.image_build.buildx import ATTEMPTS, run_bake

ENGINE = Engine(None, "context", "26.1.5", containerd_store=True)
NAMED_BY_ANOTHER = 'image "docker.io/dlc/toy:1.17-training-cpu-py311": already exists'
LOST_PARENT = "failed to prepare extraction snapshot: parent snapshot sha256:5e909e9a does not exist: not found"
LOST_STEP = "failed to get edge: inconsistent graph state"
LOST_STATE = "failed to compute cache key: failed to get state for index 0 on [toy 1/1] RUN make"
FILES_GONE = "lstat /root/.cache/dlc/engine/data/tmp/buildkit-mount945499562/venv: no such file or directory"
BUSY = "DeadlineExceeded: context deadline exceeded"
CLIENT_LOST = "Canceled: rpc error: code = Canceled desc = grpc: the client connection is closing"
# Lines that the client ends with where no step says the same.
OTHER_BUSY = (
    "ERROR: failed to solve: context deadline exceeded",
    "ERROR: failed to solve: Unavailable: error reading from server: EOF",
    "ERROR: failed to solve: no active session for 1gebm540: context deadline exceeded",
    "ERROR: DeadlineExceeded: context deadline exceeded",
    "ERROR: failed to receive status: rpc error: code = Unavailable desc = error reading from server: EOF",
    "ERROR: failed to receive status: rpc error: code = DeadlineExceeded desc = context deadline exceeded",
    "ERROR: listing workers for Build: failed to list workers: DeadlineExceeded: context deadline exceeded",
    "ERROR: failed to solve: Unavailable: transport is closing",
    'ERROR: failed to solve: Unavailable: rpc error: code = Unavailable desc = connection error: desc = "transport: '
    'Error while dialing: only one connection allowed"',
)
HINT = "View build details: docker-desktop://dashboard/build/default"
LOST_LAYERS = (
    "layer does not exist",
    "failed to get layer sha256:bb830c64: layer does not exist",
    "failed to prepare 1gebm540 as rrmx9y5l: open /docker/overlay2/earwe5oc/.tmp-committed3: no such file or directory",
)
OWN_FAULT = 'process "/bin/sh -c mkdir /opt" did not complete successfully: /opt already exists'


def refuse(folder: Path, monkeypatch: pytest.MonkeyPatch, reason: str, times: int, said: str = "") -> Path:
    """A docker client that fails for a reason so many times; the file to which each of its runs adds a line.

    `said` are its last lines, where they are others.
    """
    said = said or f"#46 ERROR: {reason}\nERROR: failed to solve: {reason}"
    (folder / "said").write_text(f"{said}\n")
    runs = folder / "runs"
    client = folder / "bin/docker"
    client.parent.mkdir()
    client.write_text(
        f"#!/bin/sh\ncat > /dev/null\necho run $* >> {runs}\n"
        f"[ $(wc -l < {runs}) -gt {times} ] && exit 0\n"
        f"cat {folder}/said\nexit 1\n"
    )
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}:{os.environ['PATH']}")
    return runs


@pytest.mark.parametrize(
    "reason", [NAMED_BY_ANOTHER, LOST_PARENT, LOST_STEP, LOST_STATE, FILES_GONE, BUSY, CLIENT_LOST]
)
def test_a_build_that_collides_with_another_client_of_the_engine_is_run_again(
    reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = refuse(tmp_path, monkeypatch, reason, ATTEMPTS - 1)
    run_bake("{}", ENGINE, tmp_path / "log", lambda _: None)
    assert len(runs.read_text().splitlines()) == ATTEMPTS


@pytest.mark.parametrize("said", OTHER_BUSY)
@pytest.mark.parametrize("hint", ["", HINT], ids=["reason last", "hint last"])
def test_a_build_that_a_busy_host_ended_in_other_words_is_run_again(
    said: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = "#46 [toy 1/1] RUN make\n#46 0.5 compiling\n#46 ERROR: canceled"
    runs = refuse(tmp_path, monkeypatch, "", ATTEMPTS - 1, f"{printed}\n{said}\n{hint}")
    run_bake("{}", ENGINE, tmp_path / "log", lambda _: None)
    assert len(runs.read_text().splitlines()) == ATTEMPTS


def test_a_step_whose_command_speaks_of_a_deadline_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = 'process "/bin/sh -c echo deadline exceeded; false" did not complete successfully: exit code: 1'
    runs = refuse(tmp_path, monkeypatch, own, ATTEMPTS)
    with pytest.raises(BuildError, match="did not complete"):
        run_bake("{}", ENGINE, tmp_path / "log", lambda _: None)
    assert len(runs.read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (NAMED_BY_ANOTHER, ATTEMPTS),
        (LOST_PARENT, ATTEMPTS),
        (BUSY, ATTEMPTS),
        (CLIENT_LOST, ATTEMPTS),
        (OWN_FAULT, 1),
    ],
)
def test_a_build_that_keeps_failing_ends_with_its_reason(
    reason: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = refuse(tmp_path, monkeypatch, reason, ATTEMPTS)
    with pytest.raises(BuildError, match=r"already exists|does not exist|host is too busy"):
        run_bake("{}", ENGINE, tmp_path / "log", lambda _: None)
    assert len(runs.read_text().splitlines()) == expected


@pytest.mark.parametrize("reason", LOST_LAYERS)
def test_a_cached_layer_that_the_engine_lost_is_made_again_without_the_cache(
    reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = refuse(tmp_path, monkeypatch, reason, 1)
    run_bake("{}", ENGINE, tmp_path / "log", lambda _: None)
    assert [run.endswith("--no-cache") for run in runs.read_text().splitlines()] == [False, True]
    assert capsys.readouterr().err == "dlc: the engine has lost a cached layer: every step runs again\n"


def test_a_layer_that_is_lost_again_without_the_cache_is_the_builds_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = refuse(tmp_path, monkeypatch, LOST_LAYERS[0], ATTEMPTS)
    with pytest.raises(BuildError, match="layer does not exist"):
        run_bake("{}", ENGINE, tmp_path / "log", lambda _: None)
    assert len(runs.read_text().splitlines()) == 2
