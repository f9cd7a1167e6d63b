"""Times the launcher, side by side with bare Python and with sagemaker-training's `train`; prints a table, writes JSON.

usage: python benchmarks/launcher.py [--peer-python FILE] [--against DIR] [--runs N] [--json FILE]

`--peer-python` is the Python of a virtual environment that holds sagemaker-training; without it the peer is left out.
`--against` is another checkout of this repository: its launcher starts in turns with this one. Starts are always
measured in turns, so that what else the host does falls on each of them alike.
The launcher runs with /usr/bin/python3, as in the images. The starts are those of a host without GPUs: elsewhere the
launcher also waits for nvidia-smi, whose time is the driver's.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher_groups import ENTRYPOINT, HANG_BOUND, SYSTEM_PYTHON, hub_of

if TYPE_CHECKING:
    from collections.abc import Callable

LAUNCHER = [SYSTEM_PYTHON, "-I", "-S", str(ENTRYPOINT / "launcher.py"), "train"]
FIRST_LINE = "import time; print(time.monotonic_ns(), flush=True)\n"
SLEEP = "import time; print(flush=True); time.sleep(60)\n"

HOST = "localhost"  # a name that resolves: the peer waits a quarter of an hour for one that does not
RANKS = 64
GROUP_SIZES = (64, 512, 1000)
BYTES_PER_SECOND = 10_000_000
CHATTY_SECONDS = 5.0
CHATTY = f"""
import os, sys, time
rank = sys.argv[1]
line = ('%s ' % rank).encode() + b'x' * 95 + b'\\n'
started = time.monotonic()
sent = 0
while time.monotonic() - started < {CHATTY_SECONDS}:
    due = int((time.monotonic() - started) * {BYTES_PER_SECOND // RANKS} / len(line))
    while sent < due:
        os.write(1, line)
        sent += 1
    time.sleep(0.01)
with open(rank, 'w') as file:
    file.write(str(sent))
"""
SUPERVISE = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from launch import signals
signals.arm()
from launch.base.process_spec import ProcessSpec
from launch.supervision.supervisor import supervise
from launch.supervision.settings import Settings
argv, folder = json.loads(sys.argv[2]), sys.argv[3]
specs = [ProcessSpec((*argv, str(rank)), {}, folder, "worker", rank) for rank in range(int(sys.argv[4]))]
wall, cpu = time.monotonic(), time.process_time()
outcome = supervise(specs, Settings(host="algo-1"))
wall, cpu = time.monotonic() - wall, time.process_time() - cpu
with open(folder + "/cost", "w") as file:
    json.dump([outcome.exit_code, wall, cpu], file)
"""
PLAN = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
from launch.plan.host_plan import make_host_plan
from launch.plan.request import read_request
make_host_plan(read_request(os.environ))  # imports what the plan needs
times = []
for _ in range(int(sys.argv[2])):
    start = time.perf_counter()
    make_host_plan(read_request(os.environ))
    times.append(time.perf_counter() - start)
print(json.dumps(times))
"""


@dataclass(frozen=True)
class Row:
    """One figure in its unit, the goal it is held to (at most), and how it was come by."""

    name: str
    value: float | None  # None: it does not happen at all
    unit: str
    goal: float | None = None
    note: str = ""


class Job:
    """A relocated /opt/ml and the environment that points at it."""

    def __init__(
        self, folder: Path, script: str, resources: dict[str, Any] | None = None, **hyperparameters: str
    ) -> None:
        self.folder = folder
        venv = folder / "venv" / "bin"
        for path in (folder / "input/config", folder / "code", venv):
            path.mkdir(parents=True)
        (venv / "python").symlink_to(SYSTEM_PYTHON)
        (folder / "code/train.py").write_text(script)
        config = folder / "input/config"
        parameters = {"sagemaker_program": "train.py", **hyperparameters}
        config.joinpath("hyperparameters.json").write_text(json.dumps(parameters))
        config.joinpath("inputdataconfig.json").write_text("{}")
        default = {"current_host": HOST, "hosts": [HOST], "network_interface_name": "lo"}
        config.joinpath("resourceconfig.json").write_text(json.dumps(resources or default))
        self.env = {
            "PATH": "/usr/bin:/bin",
            "SAGEMAKER_BASE_DIR": str(folder),
            "DLC_VENV": str(folder / "venv"),
        }


@dataclass(frozen=True)
class Start:
    """A command that ends in the user's script, in its folder."""

    argv: list[str]
    env: dict[str, str]
    folder: Path


def take_turns(measure: Callable[[Start], float | None], starts: list[Start], runs: int) -> list[list[float | None]]:
    """What each start took, a list for each: `runs` rounds of one start each, after a round that does not count."""
    rounds = [[measure(start) for start in starts] for _ in range(runs + 1)][1:]
    return [list(column) for column in zip(*rounds, strict=True)]


def median(values: list[float | None]) -> float | None:
    """The median of the runs in which it happened; None if it never did."""
    measured = [value for value in values if value is not None]
    return statistics.median(measured) if measured else None


def first_line(start: Start) -> float:
    """Milliseconds from exec to the first line of the user's script."""
    begin = time.monotonic_ns()
    done = subprocess.run(
        start.argv, env=start.env, cwd=start.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        check=True, timeout=HANG_BOUND,
    )  # fmt: skip
    stamps = re.findall(rb"^\d{9,}$", done.stdout, re.MULTILINE)
    return (int(stamps[0]) - begin) / 1e6


def handler_armed(start: Start) -> float | None:
    """Milliseconds from exec to the moment when the process catches SIGTERM; None if it never does."""
    begin = time.monotonic()
    process = subprocess.Popen(
        start.argv, env=start.env, cwd=start.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    user_code_runs = threading.Event()
    threading.Thread(target=lambda: (process.stdout.readline(), user_code_runs.set()), daemon=True).start()
    while not (caught := catches(process.pid, signal.SIGTERM)) and not user_code_runs.is_set():
        pass
    took = (time.monotonic() - begin) * 1000 if caught else None
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return took


def catches(pid: int, signum: int) -> bool:
    """Whether a process has a handler for the signal, from its own line in /proc."""
    status = Path(f"/proc/{pid}/status").read_text()
    mask = re.search(r"^SigCgt:\s*([0-9a-f]+)", status, re.MULTILINE)
    return bool(mask and int(mask[1], 16) >> (signum - 1) & 1)


def plan_64_hosts(folder: Path, runs: int) -> float:
    """Median milliseconds from the config files of a heterogeneous job of 64 hosts to its processes."""
    data, dnn = [f"algo-{n}" for n in range(1, 17)], [f"algo-{n}" for n in range(17, 65)]
    resources = {
        "current_host": "algo-20",
        "current_group_name": "dnn",
        "current_instance_type": "ml.p4d.24xlarge",
        "hosts": sorted(data + dnn),
        "instance_groups": [
            {"instance_group_name": "data", "instance_type": "ml.c5.18xlarge", "hosts": data},
            {"instance_group_name": "dnn", "instance_type": "ml.p4d.24xlarge", "hosts": dnn},
        ],
        "network_interface_name": "eth0",
    }
    job = Job(
        folder,
        FIRST_LINE,
        resources,
        sagemaker_torch_distributed_enabled="true",
        sagemaker_distribution_instance_groups='["dnn"]',
    )
    argv = [SYSTEM_PYTHON, "-I", "-S", "-c", PLAN, str(ENTRYPOINT), str(runs * 5)]
    done = subprocess.run(argv, env={**job.env, "DLC_NUM_GPUS": "8"}, stdout=subprocess.PIPE, check=True)
    seconds: list[float] = json.loads(done.stdout)
    return statistics.median(seconds) * 1000


def chatty_ranks(folder: Path) -> tuple[float, int]:
    """(CPU of the supervisor in percent of one core, bytes lost) while 64 ranks write 10 MB/s of lines."""
    folder.mkdir()
    (folder / "chatty.py").write_text(CHATTY)
    ranks = json.dumps([SYSTEM_PYTHON, "-I", "-S", str(folder / "chatty.py")])
    argv = [SYSTEM_PYTHON, "-I", "-S", "-c", SUPERVISE, str(ENTRYPOINT), ranks, str(folder), str(RANKS)]
    reader = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert reader.stdout is not None
    received: dict[bytes, int] = {}
    for line in reader.stdout:
        prefix, rank, _ = line.split(b" ", 2)
        if prefix != b"[algo-1:%s]" % rank:
            raise SystemExit(f"a line was torn: {line[:60]!r}")
        received[rank] = received.get(rank, 0) + len(line) - len(prefix) - 1
    reader.wait()
    code, wall, cpu = json.loads((folder / "cost").read_text())
    if code:
        raise SystemExit(f"the chatty job ended with {code}")
    sizes = {str(rank).encode(): 97 + len(str(rank)) for rank in range(RANKS)}
    sent = {rank: int((folder / rank.decode()).read_text()) * size for rank, size in sizes.items()}
    return cpu / wall * 100, sum(sent.values()) - sum(received.values())


def measure_starts(folder: Path, peer_python: str | None, against: Path | None, runs: int) -> list[Row]:
    """How long bare Python, this launcher and its peers need to start, in turns."""
    job, idle = Job(folder / "first", FIRST_LINE), Job(folder / "idle", SLEEP)
    launchers = {"launcher": (LAUNCHER, "")}
    if against:
        script = str(against / "src" / "entrypoint" / "launcher.py")
        launchers["launcher of --against"] = ([*LAUNCHER[:-2], script, "train"], "")
    if peer_python:
        bin_folder = Path(peer_python).parent
        for made in (job, idle):
            made.env["PATH"] = f"{bin_folder}:{made.env['PATH']}"
        show_version = "from importlib.metadata import version as v; print(v('sagemaker-training'))"
        version = subprocess.run([peer_python, "-c", show_version], capture_output=True, text=True, check=True).stdout
        launchers["peer"] = ([str(bin_folder / "train")], f"sagemaker-training {version.strip()}")
    arms = [Start(argv, idle.env, idle.folder) for argv, _ in launchers.values()]
    firsts = [Start(argv, job.env, job.folder) for argv, _ in launchers.values()]
    armed = take_turns(handler_armed, arms, runs)
    bare, *lines = take_turns(
        first_line, [Start([SYSTEM_PYTHON, "train.py"], job.env, job.folder / "code"), *firsts], runs
    )
    rows = [Row("exec to first line, bare python script", median(bare), "ms")]
    for number, (name, (_, note)) in enumerate(launchers.items()):
        own = name == "launcher"
        above = [line - floor for line, floor in zip(lines[number], bare, strict=True)]
        rows += [
            Row(f"{name}: exec to SIGTERM handler armed", median(armed[number]), "ms", 15 if own else None, note),
            Row(f"{name}: exec to first line", median(lines[number]), "ms", None, note),
            Row(f"{name}: above bare", median(above), "ms", 30 if own else None, note),
        ]
        if number:
            rows += [
                make_ratio(f"launcher / {name}: handler armed", armed[0], armed[number]),
                make_ratio(f"launcher / {name}: first line", lines[0], lines[number]),
            ]
    return rows


def make_ratio(name: str, ours: list[float | None], theirs: list[float | None]) -> Row:
    """The median over the rounds of ours divided by theirs, with the middle half of the rounds."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    if len(ratios) < 2:
        return Row(name, None, "times")
    low, middle, high = statistics.quantiles(ratios, n=4)
    return Row(name, middle, "times", None, f"half of the rounds in {low:.2f} to {high:.2f}")


def measure(folder: Path, peer_python: str | None, against: Path | None, runs: int) -> list[Row]:
    """Every figure."""
    rows = measure_starts(folder, peer_python, against, runs)
    cpu, lost = chatty_ranks(folder / "chatty")
    return [
        *rows,
        Row("config files of 64 heterogeneous hosts to plan", plan_64_hosts(folder / "plan", runs), "ms", 5),
        Row("supervising 64 ranks at 10 MB/s", cpu, "% of a core", 10),
        Row("bytes lost of these", lost, "bytes", 0),
        *hub_rows(),
    ]


def hub_rows() -> list[Row]:
    """What groups of hosts cost their leader."""
    rows = []
    for hosts in GROUP_SIZES:
        seconds, percent = hub_of(hosts)
        note = "the others are one process"
        rows.append(Row(f"{hosts} hosts meet and know each other", seconds, "s", 1 if hosts == 64 else None, note))
        rows.append(Row(f"hub of {hosts} hosts", percent, "% of a core", 5, "heartbeats alone"))
    return rows


def show(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| what | value | goal | |", "|---|---|---|---|"]
    for row in rows:
        digits = 2 if row.unit == "times" else 1
        value = "never" if row.value is None else f"{row.value:.{digits}f} {row.unit}"
        verdict = "" if row.goal is None or row.value is None else ("met" if row.value <= row.goal else "MISSED")
        goal = "" if row.goal is None else f"at most {row.goal:g} {row.unit}"
        lines.append(f"| {row.name} | {value} | {goal} | {' '.join(filter(None, [verdict, row.note]))} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", help="Python of an environment with sagemaker-training")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout, whose launcher takes turns")
    parser.add_argument("--only-starts", action="store_true", help="the starts alone")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only-hub", action="store_true", help="the groups of hosts alone")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if args.only_hub:
            rows = hub_rows()
        elif args.only_starts:
            rows = measure_starts(Path(folder), args.peer_python, args.against, args.runs)
        else:
            rows = measure(Path(folder), args.peer_python, args.against, args.runs)
    load = os.getloadavg()[0]
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}\n")
    print(show(rows))
    if not (args.peer_python or args.only_hub):
        print("the peer was left out: --peer-python names no environment with sagemaker-training")
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
