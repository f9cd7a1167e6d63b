"""An engine or a client that hangs, is broken or is missing is reported within five seconds; nothing keeps running."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlc.core.errors import EngineError
from dlc.engine import connection
from dlc.engine.connection import connect, find_engine
from dlc.engine.docker_client import Engine
from dlc.engine.images import find_images
from dlc.inspection import facts

ROOT = Path(__file__).parents[3]
PROMISED = 5.0  # seconds, for verbs that only look
QUICK = 1.0  # seconds that these tests give an engine, instead of QUICK_SECONDS
BOUND = 120  # seconds; what does not give a hanging client up takes longer
# The verb with less patience than users have.
HURRIED = f"""
import sys
from dlc.engine import connection
connection.QUICK_SECONDS = {QUICK}
connection.find_engine.__defaults__ = ({QUICK},)
from dlc.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
TORCH = "pytorch-2.13-training-cpu-py311"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with nothing chosen: no context, no private engine, a folder of programs first on PATH."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DLC_ENGINE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("DOCKER_CONFIG", "DLC_CACHE_DIR", "DLC_ENGINE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    return tmp_path


def fake_docker(home: Path, script: str) -> None:
    (home / "bin/docker").write_text(f"#!/bin/sh\n{script}\n")
    (home / "bin/docker").chmod(0o755)


@pytest.fixture(params=["unix", "tcp"])
def deaf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a socket that accepts connections and never answers."""
    family = socket.AF_UNIX if request.param == "unix" else socket.AF_INET
    with socket.socket(family) as listener:
        listener.bind(str(tmp_path / "deaf.sock") if request.param == "unix" else ("127.0.0.1", 0))
        listener.listen(16)
        name = listener.getsockname()
        yield f"unix://{name}" if request.param == "unix" else f"tcp://{name[0]}:{name[1]}"


def dlc(*argv: str) -> subprocess.CompletedProcess[str]:
    """The finished verb."""
    done = subprocess.run([sys.executable, "-c", HURRIED, *argv], cwd=ROOT, capture_output=True,
                          text=True, timeout=BOUND)  # fmt: skip
    assert "Traceback" not in done.stderr
    return done


def running(mark: str) -> list[str]:
    """Command lines of processes that have `mark` in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if path.name != str(os.getpid()) and mark.encode() in (path / "environ").read_bytes():
                found.append((path / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return [line for line in found if line]


def require_gone(mark: str) -> None:
    """What was killed goes when the kernel comes to it."""
    deadline = time.monotonic() + BOUND
    while left := running(mark):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def require_quick(home: Path, where: str) -> None:
    """list, doctor and engine status say that `where` does not answer; list shows its table all the same."""
    done = dlc("list", TORCH)
    assert done.returncode == 0
    assert TORCH in done.stdout
    assert "DIGEST" not in done.stdout
    assert f"{where}: not answering" in done.stderr
    done = dlc("doctor")
    assert done.returncode == 1
    assert f"bad   engine        {where}: not answering" in done.stdout
    done = dlc("engine", "status", "--json")
    assert done.returncode == EngineError.exit_code
    assert json.loads(done.stdout)["problem"].startswith(f"{where}: not answering")
    require_gone(str(home / "DOCKER_CONFIG"))


def test_an_engine_that_accepts_and_never_answers(home: Path, deaf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not any((Path(folder) / "docker").exists() for folder in os.environ["PATH"].split(":")):
        fake_docker(home, "sleep 300")
    monkeypatch.setenv("DOCKER_HOST", deaf)
    require_quick(home, deaf)


def test_an_engine_that_is_busy_is_told_from_one_that_is_gone(
    home: Path, deaf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_docker(home, "sleep 300")
    monkeypatch.setenv("DOCKER_HOST", deaf)
    with pytest.raises(EngineError, match=r"not answering: .*; it takes connections: it is busy, or it hangs"):
        find_engine(0.3)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(EngineError, match=r"not answering: .* within 0.3 s\n"):
        find_engine(0.3)


@pytest.mark.parametrize(
    "script",
    ["trap '' TERM; while :; do sleep 1; done", "case $1 in context) sleep 300 & wait ;; esac"],
    ids=["every call hangs and SIGTERM is ignored", "docker context inspect hangs"],
)
def test_a_client_that_hangs(home: Path, script: str) -> None:
    fake_docker(home, script)
    require_quick(home, "the Docker engine of the current context")


def test_the_time_to_find_an_engine_is_bounded(home: Path) -> None:
    fake_docker(home, "sleep 300")
    with pytest.raises(
        EngineError, match=r"not answering: `docker context inspect` got no answer within 0.3 s"
    ) as caught:
        find_engine(0.3)
    assert "restart it" in caught.value.remedy
    assert find_engine.__defaults__ == (connection.QUICK_SECONDS,)
    assert connection.QUICK_SECONDS + 1 < PROMISED  # the rest is the verb's own


def test_an_engine_that_answers_once_and_hangs_then(home: Path) -> None:
    fake_docker(home, """case $1 in info) echo '{"ServerVersion": "26"}' ;; image) sleep 300 ;; esac""")
    done = dlc("list", TORCH)
    assert done.returncode == 0
    assert "not answering: `docker image inspect`" in done.stderr
    done = dlc("doctor")
    assert done.returncode == 1
    assert "not answering" in done.stdout


@pytest.mark.parametrize(
    "answer",
    ['{"ServerVersion": ', "[]", "null", '"text"', "\\377\\376", '{"ServerVersion": "26", "DriverStatus": 7}',
     '{"ServerVersion": "26", "DriverStatus": [["one"]]}', "", "[" * 3000],
    ids=["cut", "list", "null", "text", "bytes", "number for a list", "no pairs", "nothing", "deep"],
)  # fmt: skip
def test_an_answer_that_is_none_is_an_error_that_shows_it(home: Path, answer: str) -> None:
    fake_docker(home, f"[ $1 = info ] && printf '%b' '{answer}'; exit 0")
    with pytest.raises(EngineError, match="expected `docker info` to print JSON, found"):
        find_engine()
    done = dlc("engine", "status")
    assert done.returncode == EngineError.exit_code


@pytest.mark.parametrize("answer", ["[{", "{}x", "[7]", '[{"RepoTags": ["dlc/toy:1"]}]', "\\377"])
def test_images_that_are_no_list_of_images_are_an_error(home: Path, answer: str) -> None:
    fake_docker(home, f"printf '%b' '{answer}'")
    with pytest.raises(EngineError, match="expected `docker image inspect` to print JSON about images"):
        find_images(Engine(None, "context", "26", containerd_store=True), ["dlc/toy:1"])


@pytest.mark.parametrize("answer", ["", "[]", "null", "[null]", "[{}]", "5", "\\377", '[{"Config": {"Labels": [1]}}]'])
def test_an_inspected_image_of_another_form_is_an_error(home: Path, answer: str) -> None:
    fake_docker(home, f"printf '%b' '{answer}'")
    with pytest.raises(EngineError, match="expected `docker image inspect` to print JSON about images"):
        facts.inspect_image(Engine(None, "context", "26", containerd_store=True), "dlc/toy:1")


@pytest.mark.parametrize(("history", "probed"), [("[]", "{}"), ("{}", "{}"), ("\\377", "{}"), ("", "[]"), ("", "{}")])
def test_history_and_probe_of_another_form_are_an_error(home: Path, history: str, probed: str) -> None:
    image = '[{"Id": "sha256:0", "Created": "2026-11-20T12:00:00Z", "Config": {}}]'
    fake_docker(
        home, f"case $1 in image) echo '{image}';; history) printf '%b' '{history}';; *) echo '{probed}';; esac"
    )
    with pytest.raises(EngineError, match="check that docker on PATH is a Docker client"):
        facts.capture_facts(Engine(None, "context", "26", containerd_store=True), "dlc/toy:1")


def test_who_has_little_time_to_answer_has_little_time_to_end(home: Path) -> None:
    fake_docker(home, "trap '' TERM; while :; do sleep 0.1; done")
    engine, moment = Engine(None, "context", "26", containerd_store=True), 0.3
    with pytest.raises(EngineError, match="not answering"):
        find_images(engine, ["dlc/toy:1"], moment)
    require_gone(str(home / "DOCKER_CONFIG"))


def test_an_image_that_goes_while_the_list_asks_is_no_error_of_the_list(home: Path) -> None:
    tag = f"dlc/pytorch:{TORCH.removeprefix('pytorch-')}"
    image = json.dumps([{"Id": "sha256:0", "RepoTags": [tag], "Created": "2026-11-20", "Config": {}}])
    answers = (
        f"""info) echo '{{"ServerVersion": "26"}}' ;; image) echo '{image}' ;; history) echo gone >&2; exit 1 ;;"""
    )
    fake_docker(home, f"case $1 in {answers} esac")
    done = dlc("list", TORCH, "--json")
    assert (done.returncode, len(json.loads(done.stdout))) == (0, 1)
    assert "gone" in done.stderr


def test_doctor_finds_an_engine_bad_that_hangs_at_its_last_question(home: Path) -> None:
    fake_docker(
        home,
        """case "$*" in "info --format {{json .}}") echo '{"ServerVersion": "26"}' ;; buildx*) sleep 300 ;; esac""",
    )
    done = dlc("doctor", "--json")
    assert done.returncode == 1
    levels = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert levels["engine"]["level"] == "ok"
    assert (levels["buildx"]["level"], "not answering" in levels["buildx"]["found"]) == ("bad", True)
    assert {"disk", "memory", "CA bundle"} <= set(levels)


@pytest.mark.parametrize("address", ["rubbish", "http://", "-x", "unix://", "tcp://127.0.0.1:1", "unix:///\n", "ü"])
def test_a_docker_host_that_is_no_address_is_named(home: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(EngineError, match=r"^DOCKER_HOST=") as caught:
        find_engine()
    assert "unset DOCKER_HOST" in caught.value.remedy


def test_a_context_that_the_user_names_and_that_is_not_there_is_an_error(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONTEXT", "nobody")
    with pytest.raises(EngineError, match="DOCKER_CONTEXT=nobody: no engine answers there"):
        find_engine()


@pytest.mark.parametrize("host", ["", "unix:///nowhere/docker.sock"], ids=["its own context", "DOCKER_HOST"])
def test_an_engine_that_this_user_may_not_use_is_told_with_what_lets_him(
    host: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("dlc.engine.remedies.SOCKET", home / "docker.sock")
    denied = "permission denied while trying to connect to the Docker API"
    fake_docker(home, f"case $1 in info) echo '{denied}' >&2; exit 1 ;; esac")
    monkeypatch.setenv("DOCKER_HOST", host)
    with pytest.raises(EngineError, match="permission denied") as caught:
        find_engine()
    assert "usermod -aG docker" in caught.value.remedy
    assert "unset" not in caught.value.remedy


def test_who_cannot_start_an_engine_is_not_told_to(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_docker(home, "exit 1")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EngineError, match="no Docker engine answers") as caught:
        connect(start=False)
    assert "install rootless Docker with its buildx plug-in" in caught.value.remedy
    assert "dlc engine start" not in caught.value.remedy


@pytest.mark.parametrize("host", ["", "unix:///nobody.sock"], ids=["nothing chosen", "DOCKER_HOST"])
def test_a_missing_client_is_said_as_such(home: Path, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home / "bin"))
    monkeypatch.setenv("DOCKER_HOST", host)
    monkeypatch.setenv("DLC_ENGINE", "off")
    for verb in (["engine", "status"], ["engine", "start"], ["doctor"], ["engine", "env"]):
        done = dlc(*verb)
        assert "no docker client: expected the program docker on PATH" in done.stdout + done.stderr, verb


def test_a_missing_client_is_not_taken_for_a_busy_engine(
    home: Path, deaf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something listens where the engine would be, and nobody has asked it."""
    monkeypatch.setenv("PATH", str(home / "bin"))
    monkeypatch.setenv("DOCKER_HOST", deaf)
    done = dlc("engine", "status")
    assert done.returncode == EngineError.exit_code
    assert "no docker client: expected the program docker on PATH, found none\n" in done.stderr
    assert "busy" not in done.stderr


def test_an_engine_of_another_platform_is_refused_by_name(home: Path) -> None:
    info = """echo '{"ServerVersion": "26", "Architecture": "aarch64"}'"""
    fake_docker(home, f"case $1 in info) {info} ;; *) echo 'Error: No such image: toy' >&2; exit 1 ;; esac")
    engine = find_engine()
    assert engine
    assert engine.platform == "linux/arm64"
    with pytest.raises(EngineError, match="expected linux/amd64, the platform of these images, found linux/arm64"):
        engine.require_platform()
    done = dlc("doctor")
    assert "bad   platform" in done.stdout
    assert "found linux/arm64" in done.stdout


def test_a_host_of_another_platform_is_refused_before_anything_is_installed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uname = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((*uname[:4], "aarch64")))
    with pytest.raises(EngineError, match="this host: expected linux/amd64"):
        Engine(None, "context", "26", containerd_store=True, platform="linux/amd64").require_platform()
