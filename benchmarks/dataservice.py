"""Times the data service beside a raw socket, gRPC, Arrow Flight and tf.data.service; prints tables, writes JSON.

usage: python benchmarks/dataservice.py [--runs N] [--megabytes 0.1,1,20] [--peer-python NAME=FILE ...] [--grid 1,2,4,8]
                                        [--seconds S] [--json FILE]

Runs with a Python that has torch, numpy and grpcio. Peers whose packages it lacks run with the Python that
`--peer-python arrow_flight=FILE` or `tf_data_service=FILE` names, else they are left out. One run of every peer and
size comes before the next one of each: what the machine does beside it meets all alike. `--grid` times this service
with as many servers and as many consumers.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PEERS = Path(__file__).parent / "dataservice_peers"
SOURCES = Path(__file__).resolve().parents[1] / "src"
FLOOR, OURS, OURS_TLS, GRPC_TLS = "raw_socket", "this_service", "this_service_mtls", "grpc_bytes_mtls"
TLS = "_mtls"  # ends the name of a peer that runs with DLC_DATA_TLS=1
NEEDS = {
    FLOOR: ("numpy",),
    OURS: ("torch", "numpy", "grpc", "grpc_health"),
    OURS_TLS: ("torch", "numpy", "grpc", "grpc_health", "cryptography"),
    "grpc_bytes": ("torch", "numpy", "grpc"),
    GRPC_TLS: ("torch", "numpy", "grpc", "cryptography"),
    "arrow_flight": ("torch", "numpy", "pyarrow.flight"),
    "tf_data_service": ("tensorflow",),
}
SHARES = {0.1: 0.6, 1.0: 0.8, 20.0: 0.8}  # megabytes of a batch -> goal, as a share of the raw socket's speed
GOALS = {  # the faster, the slower -> how many times, geometric mean over the sizes
    (OURS, "grpc_bytes"): 3.0,
    (OURS, "tf_data_service"): 2.0,
    (OURS, "arrow_flight"): 1.5,
    (OURS_TLS, GRPC_TLS): 1.0,
}
HANGS = 300.0
TICKS = os.sysconf("SC_CLK_TCK")


class Run(NamedTuple):
    megabytes_per_second: float
    cpu_per_gigabyte: float  # seconds, of server and consumer


def main() -> None:
    arguments = parsed()
    pythons = dict.fromkeys(NEEDS, sys.executable) | dict(item.split("=", 1) for item in arguments.peer_python)
    peers = [name for name in NEEDS if has(pythons[name], NEEDS[name])]
    for name in NEEDS.keys() - set(peers):
        print(f"left out: {name} (no {', '.join(NEEDS[name])} in {pythons[name]})", file=sys.stderr)
    sizes = [float(text) for text in arguments.megabytes.split(",")]
    results: dict[str, list[Run]] = {}
    for size in sizes:
        with started([Peer(name, pythons[name], size, arguments.seconds, 1, 1) for name in peers]) as ready:
            for _ in range(1 + arguments.runs):
                for peer in ready:
                    results.setdefault(f"{peer.name} {size:g}", []).append(peer.round())
    results = {key: runs[1:] for key, runs in results.items()}  # the first round finds nothing warm
    table(results, peers, sizes)
    grid = [int(text) for text in arguments.grid.split(",") if text]
    together: dict[str, list[Run]] = {}
    for servers, consumers in itertools.product(grid, grid):
        with started([Peer(OURS, pythons[OURS], 1.0, arguments.seconds, servers, consumers)]) as (peer,):
            runs = [peer.round() for _ in range(1 + arguments.runs)]
            together[f"{servers} servers, {consumers} consumers"] = runs[1:]
    for name, runs in together.items():
        print(f"{name}: {median(runs, 'megabytes_per_second'):.0f} MB/s in all")
    if arguments.json:
        told = {"machine": platform.processor() or platform.machine(), "cpus": os.cpu_count(), "runs": results}
        arguments.json.write_text(json.dumps({**told, "grid": together}, indent=1))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--megabytes", default="0.1,1,20")
    parser.add_argument("--seconds", type=float, default=1.0, help="about, for one measurement")
    parser.add_argument("--peer-python", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--grid", default="")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def has(python: str, modules: tuple[str, ...]) -> bool:
    code = f"import importlib.util as i, sys; sys.exit(not all(map(i.find_spec, {modules!r})))"
    # The look for a part of a package that is not there ends with a traceback
    return subprocess.run([python, "-c", code], stderr=subprocess.DEVNULL).returncode == 0


class Peer:
    """Servers and consumers of one peer, as processes that wait between the rounds."""

    def __init__(self, name: str, python: str, megabytes: float, seconds: float, servers: int, consumers: int) -> None:
        self.name, self.size, self.consumers = name, int(megabytes * 1e6), consumers
        self.count = max(80, int(seconds * 1.5e9 / self.size / consumers))
        self.ports = [free_port() for _ in range(servers)]
        self.command = [python, str(PEERS / f"{name.removesuffix(TLS)}.py")]
        self.environ = {**os.environ, "PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
        self.environ |= {"DLC_DATA_TLS": "1" if name.endswith(TLS) else "0", "DLC_DATA_TOKEN": "of this benchmark"}
        self.hosts = [self._started("serve", port, self.size, 0) for port in self.ports]
        self.takers: list[Any] = []

    def connect(self) -> None:
        for port, host in zip(self.ports, self.hosts, strict=True):
            wait_until_open(port, host, self.name)
        for rank in range(self.consumers):
            more = [rank, self.consumers, *self.ports] if self.name.startswith(OURS) else []
            self.takers.append(self._started("take", self.ports[0], self.size, self.count, *more))

    def _started(self, *words: object) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        command = [*self.command, *map(str, words)]
        return subprocess.Popen(command, env=self.environ, start_new_session=True, **pipes)  # type: ignore[call-overload, no-any-return]

    def round(self) -> Run:
        """Timed from the end of the warm-up of all consumers to the end of the last."""
        self._tell()
        for taker in self.takers:
            assert taker.stdout.readline() == "start\n", f"a consumer of {self.name} failed in its warm-up"
        before = sum(cpu_seconds(host.pid) for host in self.hosts)
        started = time.perf_counter()
        self._tell()
        found = [json.loads(taker.stdout.readline()) for taker in self.takers]
        wall = time.perf_counter() - started
        cpu = sum(cpu_seconds(host.pid) for host in self.hosts) - before + sum(item["cpu"] for item in found)
        total = sum(item["bytes"] for item in found)
        seconds = wall if len(self.takers) > 1 else found[0]["seconds"]
        return Run(total / seconds / 1e6, cpu / (total / 1e9))

    def _tell(self) -> None:
        for taker in self.takers:
            taker.stdin.write("\n")
            taker.stdin.flush()

    def close(self) -> None:
        for process in [*self.takers, *self.hosts]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def started(peers: list[Peer]) -> Iterator[list[Peer]]:
    """They are connected; killed at the end."""
    try:
        for peer in peers:
            peer.connect()
        yield peers
    finally:
        for peer in peers:
            peer.close()


def cpu_seconds(session: int) -> float:
    """Of all processes of a session, those that ended among their parents' children."""
    found = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                found += sum(map(int, fields[11:13])) / TICKS
    return found


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def wait_until_open(port: int, host: subprocess.Popen[str], name: str) -> None:
    """Without a connection, which the raw socket's server would take for its consumer."""
    deadline = time.monotonic() + HANGS
    wanted = f":{port:04X} "
    while time.monotonic() < deadline:
        if host.poll() is not None:
            raise SystemExit(f"the server of {name} ended with {host.returncode} before it listened: {host.args}")
        lines = [*Path("/proc/net/tcp").read_text().splitlines(), *Path("/proc/net/tcp6").read_text().splitlines()]
        if any(wanted in line[:50] and line.split()[3] == "0A" for line in lines[1:] if ":" in line):
            return
        time.sleep(0.05)
    raise SystemExit(f"nothing listens at port {port} after {HANGS:.0f} s")


def median(runs: list[Run], field: str) -> float:
    return statistics.median(getattr(run, field) for run in runs)


def table(results: dict[str, list[Run]], peers: list[str], sizes: list[float]) -> None:
    print("| peer | " + " | ".join(f"{size:g} MB: MB/s | CPU s/GB" for size in sizes) + " |")
    print("|---" * (1 + 2 * len(sizes)) + "|")
    for name in peers:
        cells = [
            f"{median(results[f'{name} {size:g}'], field):{form}}"
            for size in sizes
            for field, form in (("megabytes_per_second", ".0f"), ("cpu_per_gigabyte", ".2f"))
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")
    print()
    for name in [peer for peer in (OURS, OURS_TLS) if FLOOR in peers and peer in peers]:
        for size in sizes:
            goal = f" (goal: {SHARES[size]:.0%})" if size in SHARES and name == OURS else ""
            share = statistics.median(ratios(results, name, FLOOR, size))
            print(f"{name} at {size:g} MB: {share:.0%} of the raw socket{goal}")
    for (name, other), goal in GOALS.items():
        if name in peers and other in peers:
            found = [statistics.median(ratios(results, name, other, size)) for size in sizes]
            print(f"{name} over {other}: {statistics.geometric_mean(found):.1f} times (goal: {goal:g})")


def ratios(results: dict[str, list[Run]], name: str, other: str, size: float) -> list[float]:
    """Of the two speeds in each repetition: what slows the machine for a while slows both."""
    pairs = zip(results[f"{name} {size:g}"], results[f"{other} {size:g}"], strict=True)
    return [one.megabytes_per_second / two.megabytes_per_second for one, two in pairs]


if __name__ == "__main__":
    main()
