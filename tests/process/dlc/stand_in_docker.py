"""A docker client without an engine: containers are processes of this machine, which run the job's script.

It knows the commands that dlc.places.local uses. Containers and networks are files of the folder STAND_IN_DOCKER.
tests/integration/test_run.py has the same cases with real containers.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

STATE = Path(os.environ["STAND_IN_DOCKER"])
LATE = "context deadline exceeded: unknown."


def now() -> str:
    nanoseconds = time.time_ns()
    return time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(nanoseconds // 10**9)) + f"{nanoseconds % 10**9:09}Z"


def save(name: str, state: dict[str, object]) -> None:
    half = STATE / f"{name}.half"
    half.write_text(json.dumps(state))
    half.rename(STATE / f"{name}.container")


def load(name: str) -> dict[str, object]:
    state: dict[str, object] = json.loads((STATE / f"{name}.container").read_text())
    return state


def is_busy(what: str) -> bool:
    """Whether this attempt meets an engine that is too busy for its own bounds: the file holds how many do."""
    path = STATE / f"busy-{what}"
    left = int(path.read_text()) if path.exists() else 0
    if left:
        path.write_text(str(left - 1))
    return left > 0


def run(words: list[str]) -> int:
    """The job's script, train.py in the host's folder, as a process group; its exit code as a container's."""
    options = dict(pairwise(words))
    # Behind the image are the arguments of a script.
    if words[1] == "--detach":
        return show_job(words)
    if words[1] == "--rm":
        return run_shell(words)
    if options.get("--user") == "nobody-there":
        print("docker: Error response from daemon: unable to find user nobody-there.\n\nSee 'docker run --help'.")
        return 125
    if is_busy(options["--hostname"]):
        print(f"docker: Error response from daemon: failed to create shim task: {LATE}")
        return 125
    root = Path(options["--mount"].partition("source=")[2].partition(",")[0])
    given = dict(word.split("=", 1) for option, word in pairwise(words) if option == "--env" and "=" in word)
    variables = {**given, "SM_CURRENT_HOST": options["--hostname"], "SM_MODEL_DIR": str(root / "model")}
    (root / "model").mkdir()
    child = subprocess.Popen(
        [sys.executable, "-u", "train.py", *words[words.index("train") + 1 :]],
        cwd=root / "code",
        env={**os.environ, **variables},
        start_new_session=True,
    )
    known = {"Job": options["--label"].rpartition("=")[2], "Root": str(root)}
    state = known | {
        "StartedAt": now(),
        "Running": True,
        "Pid": child.pid,
        "ExitCode": 0,
        "FinishedAt": "0001-01-01T00:00:00Z",
    }
    save(options["--name"], state)
    code = child.wait()
    code = 128 - code if code < 0 else code
    if (STATE / f"{options['--name']}.container").exists():
        save(options["--name"], {**state, "Running": False, "Pid": 0, "ExitCode": code, "FinishedAt": now()})
    return code


def show_job(words: list[str]) -> int:
    """A container of TensorBoard, which does nothing until it is killed."""
    if (STATE / "without-tensorboard").exists():
        print('docker: exec: "tensorboard": executable file not found in $PATH: unknown', file=sys.stderr)
        return 127
    options = dict(pairwise(words))
    nothing = subprocess.DEVNULL
    child = subprocess.Popen(["sleep", "600"], start_new_session=True, stdin=nothing, stdout=nothing, stderr=nothing)
    job = options["--label"].rpartition("=")[2]
    state = {"Job": job, "StartedAt": now(), "Running": True, "Pid": child.pid, "ExitCode": 0, "Words": words}
    save(options["--name"], {**state, "FinishedAt": "0001-01-01T00:00:00Z"})
    return 0


def run_shell(words: list[str]) -> int:
    """A command in an image: the words behind its reference."""
    return subprocess.call(words[next(place for place, word in enumerate(words) if word.startswith("dlc/")) + 1 :])


def follow_show(name: str) -> None:
    """The lines of such a container, until it is removed."""
    print("TensorBoard 2.21.0 at http://0.0.0.0:6006/ (Press CTRL+C to quit)", flush=True)
    while (STATE / f"{name}.container").exists():
        time.sleep(0.05)


def kill(name: str, container: str) -> None:
    state = load(container)
    if state["Running"]:
        os.killpg(int(str(state["Pid"])), signal.Signals[f"SIG{name}"])


def deliver(name: str, names: list[str]) -> None:
    if (STATE / f"slow-{name}").exists():  # as a busy engine does
        time.sleep(float((STATE / f"slow-{name}").read_text()))
    for container in names:
        kill(name, container)


def inspect(names: list[str]) -> int:
    for name in names:
        if (STATE / f"{name}.container").exists():
            print(f"/{name}", json.dumps(load(name)))
        else:
            print(f"Error response from daemon: No such container: {name}", file=sys.stderr)
    return int(not all((STATE / f"{name}.container").exists() for name in names))


def remove(names: list[str]) -> int:
    if (STATE / "stuck").exists():
        print("Error response from daemon: tried to kill container, but did not receive an exit event", file=sys.stderr)
        return 1
    for name in names:
        if (STATE / f"{name}.container").exists():
            kill("KILL", name)
            (STATE / f"{name}.container").unlink()
    if (STATE / "refuse").exists():  # as where somebody else was faster
        print(f"removal of container {names[0]} is already in progress", file=sys.stderr)
        return 1
    return 0


def found(kind: str, label: str) -> None:
    print("\n".join(path.stem for path in STATE.glob(f"dlc-{label.rpartition('=')[2]}*.{kind}")))


def print_states(job: str) -> None:
    """The containers of a job, or of all jobs."""
    for path in STATE.glob("*.container"):
        state = load(path.stem)
        if job in ("", state["Job"]):
            print(state["Job"], path.stem, "running" if state["Running"] else "exited")


def main(words: list[str]) -> int:
    match words:
        case ["image", "inspect", *_, ref]:
            if "none" in ref:
                print(f"Error response from daemon: No such image: {ref}", file=sys.stderr)
                return 1
        case ["run", *_]:
            return run(words)
        case ["info", *_]:
            host = {"NCPU": 2, "MemTotal": 4 << 30, "Runtimes": {"runc": {}}}
            print(json.dumps({"ServerVersion": "1", "DriverStatus": [], "Architecture": "x86_64", **host}))
        case ["container", "inspect", "--format", _, *names]:
            return inspect(names)
        case ["kill", "--signal", name, *containers]:
            deliver(name, containers)
        case ["rm", "--force", "--volumes", *names]:
            return remove(names)
        case ["ps", *_, "--filter", label, "--format", form] if "State" not in form:
            found("container", label)
        case ["network", *_]:
            return network(words)
        case _:
            return look_after(words)
    return 0


def look_after(words: list[str]) -> int:
    """What is asked of the containers of a job that runs."""
    match words:
        case ["ps", "--all", "--filter", label, "--format", _]:
            print_states(label.partition("=")[2].partition("=")[2])
        case ["port", _, _]:
            print("127.0.0.1:32768")
        case ["logs", "--follow", name]:
            follow_show(name)
        case ["stop", *containers]:
            deliver("TERM", containers)
            for container in containers:
                while load(container)["Running"]:
                    time.sleep(0.05)
        case ["exec", "--interactive", "--tty", name, *command] | ["exec", "--interactive", name, *command]:
            return subprocess.call(command, cwd=Path(str(load(name)["Root"])) / "code")
        case _:
            print(f"docker: the stand-in does not know {words}", file=sys.stderr)
            return 1
    return 0


def network(words: list[str]) -> int:
    match words:
        case ["network", "create", *_] if is_busy("network"):
            print(f"Error response from daemon: {LATE}", file=sys.stderr)
            return 1
        case ["network", "create", *_, name]:
            (STATE / f"{name}.network").touch()
        case ["network", "ls", "--filter", label, "--format", _]:
            found("network", label)
        case ["network", "rm", *names]:
            for name in names:
                (STATE / f"{name}.network").unlink()
        case _:
            print(f"docker: the stand-in does not know {words}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
