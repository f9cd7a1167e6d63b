"""Times a training loop that prepares its batches beside one that takes them from data hosts, as a batch costs more.

usage: python benchmarks/heterogeneous.py [--costs 10,40,120,240] [--step-ms 20] [--steps 40] [--runs N] [--hosts 2]
                                          [--cpus 3] [--burn] [--svg FILE] [--json FILE]

Runs with a Python that has torch, numpy and grpcio. Every host is a set of processes on loopback. The training host has
one CPU for preparing batches and a "GPU" whose step takes a fixed time; each data host has `--cpus`. A batch is a
second of waiting for each CPU second that it costs, so the machine needs no such CPUs and what runs beside it does not
count; `--burn` computes instead. Ideal: a step takes as long as the GPU's, or as the CPUs need for a batch. Beside
this service runs the protocol of the public example: a DataLoader on each data host, and gRPC that sends bytes; and Ray
Data with as many CPUs, where that Python has it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dataservice

LOCAL, OURS, GRPC, RAY = "homogeneous", "this service", "simple gRPC", "Ray Data"
COLOURS = {LOCAL: "#888888", OURS: "#0b6fa4", GRPC: "#c8651b", RAY: "#4a8f3c", "ideal": "#111111"}
GOAL = 0.9  # of the ideal
WARM_UP = {LOCAL: 4, OURS: 100, GRPC: 100, RAY: 100}  # steps, until what was made ahead at the start is used up
IMAGES, SIDE = 32, 64
WIDTH, HEIGHT, MARGIN = 640, 360, 50


def images(cost: float, burn: bool) -> Any:
    """A dataset whose batches, of IMAGES float images, cost `cost` CPU seconds each."""
    import torch

    class Images(torch.utils.data.Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 10**6

        def __getitems__(self, indices: list[int]) -> list[Any]:
            until = time.process_time() + cost
            if not burn:
                time.sleep(cost)
            while burn and time.process_time() < until:
                pass
            return [(torch.full((3, SIDE, SIDE), float(index)), index) for index in indices]

    return Images()


def loader(told: dict[str, Any], workers: int) -> Any:
    import torch

    torch.set_num_threads(1)
    return torch.utils.data.DataLoader(images(told["cost"], told["burn"]), IMAGES, num_workers=workers)


def play(role: str, told: dict[str, Any]) -> None:
    """A process of a host."""
    sys.path.insert(0, str(dataservice.PEERS))
    import grpc_bytes  # and torch: no time of a step is its import's

    from dlc_runtime.dataservice import RemoteLoader, serve

    servers = [f"127.0.0.1:{port}" for port in told["ports"]]
    if role == f"data {OURS}":
        serve(loader(told, told["cpus"]), address="127.0.0.1", port=told["port"])
    elif role == f"data {GRPC}":
        batches = ([tensor.numpy() for tensor in batch] for batch in loader(told, told["cpus"]))
        grpc_bytes.serve_batches(told["port"], batches)
    elif role == LOCAL:
        train(iter(loader(told, 1)), told)
    elif role == OURS:
        train(iter(RemoteLoader(servers, rank=0, world=1)), told)
    elif role == RAY:
        import ray_data

        train(ray_data.take(IMAGES, SIDE, told["cost"], told["burn"], told["cpus"] * told["hosts"]), told)
    else:
        streams = itertools.cycle([grpc_bytes.take(port, IMAGES) for port in told["ports"]])
        train((next(stream) for stream in streams), told)


def train(batches: Iterator[Any], told: dict[str, Any]) -> None:
    """Print the seconds of a step, from batch to batch."""
    for step in range(-told["warm_up"], told["steps"]):
        if step == 0:
            begin = time.perf_counter()
        next(batches)
        time.sleep(told["step"])  # the GPU's
    print(json.dumps((time.perf_counter() - begin) / told["steps"]), flush=True)
    os._exit(0)  # without waiting for what was fetched ahead


def measure(way: str, told: dict[str, Any], hosts: int) -> float:
    """Seconds of a step."""
    ports = [dataservice.free_port() for _ in range(0 if way in (LOCAL, RAY) else hosts)]
    environ = {**os.environ, "PYTHONPATH": str(dataservice.SOURCES), "OMP_NUM_THREADS": "1", "DLC_DATA_TOKEN": "x"}
    pipes = {"env": environ, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    processes = []

    def start(role: str, port: int = 0) -> subprocess.Popen[str]:
        command = [sys.executable, __file__, "--play", role, json.dumps({**told, "port": port, "ports": ports})]
        processes.append(subprocess.Popen(command, start_new_session=True, **pipes))  # type: ignore[call-overload]
        return processes[-1]

    try:
        for port in ports:
            start(f"data {way}", port)
        for port in ports:
            dataservice.wait_until_open(port)
        return float(json.loads(start(way).communicate(timeout=dataservice.HANGS)[0]))
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def main() -> None:
    arguments = parsed()
    if arguments.play:
        play(arguments.play[0], json.loads(arguments.play[1]))
        return
    costs = [float(text) / 1e3 for text in arguments.costs.split(",")]
    step = arguments.step_ms / 1e3
    ways = [LOCAL, OURS, GRPC, *([RAY] if importlib.util.find_spec("ray") else [])]
    found: dict[str, dict[float, list[float]]] = {way: {cost: [] for cost in costs} for way in ways}
    for _ in range(arguments.runs):
        for cost in costs:
            for way, runs in found.items():
                told = {**vars(arguments), "cost": cost, "step": step, "warm_up": WARM_UP[way], "svg": "", "json": ""}
                runs[cost].append(measure(way, told, arguments.hosts))
    seconds = {way: {cost: statistics.median(runs) for cost, runs in of.items()} for way, of in found.items()}
    cpus = arguments.hosts * arguments.cpus
    ideal = {cost: max(step, cost / cpus) for cost in costs}
    table(seconds, ideal, step, cpus)
    if arguments.svg:
        arguments.svg.write_text(chart({**seconds, "ideal": ideal}))
    if arguments.json:
        arguments.json.write_text(json.dumps({"step": step, "cpus": cpus, "runs": found}, indent=1))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--costs", default="10,40,120,240", help="CPU milliseconds of a batch")
    parser.add_argument("--step-ms", type=float, default=20.0)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--cpus", type=int, default=3, help="of each data host")
    parser.add_argument("--burn", action="store_true")
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--play", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def table(seconds: dict[str, dict[float, float]], ideal: dict[float, float], step: float, cpus: int) -> None:
    """Steps in ms with the share of them in which the GPU waits."""
    print(f"1 CPU beside the GPU, {cpus} CPUs on the data hosts, {step * 1e3:g} ms for the GPU's step")
    print(f"| CPU ms of a batch | {' | '.join(f'{way}: ms, GPU idle' for way in seconds)} | ideal ms | of the ideal |")
    print("|---" * (len(seconds) + 3) + "|")
    for cost, best in ideal.items():
        cells = [f"{of[cost] * 1e3:.1f}, {max(0.0, 1 - step / of[cost]):.0%}" for of in seconds.values()]
        print(f"| {cost * 1e3:g} | {' | '.join(cells)} | {best * 1e3:.1f} | {best / seconds[OURS][cost]:.0%} |")
    worst = min(best / seconds[OURS][cost] for cost, best in ideal.items())
    print(f"\n{OURS}: at least {worst:.0%} of the ideal (goal: {GOAL:.0%})")


def chart(lines: dict[str, dict[float, float]]) -> str:
    """Milliseconds of a step over CPU milliseconds of a batch, as SVG."""
    costs = list(lines[LOCAL])
    right, top = max(costs), max(max(of.values()) for of in lines.values()) * 1.05
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">']

    def at(cost: float, seconds: float) -> tuple[float, float]:
        across = MARGIN + cost / right * (WIDTH - 2 * MARGIN)
        return round(across, 1), round(HEIGHT - MARGIN - seconds / top * (HEIGHT - 2 * MARGIN), 1)

    for cost in costs:
        parts.append(f'<text x="{at(cost, 0)[0]}" y="{HEIGHT - 32}" font-size="11">{cost * 1e3:g}</text>')
    for share in (0.25, 0.5, 0.75, 1.0):
        x, y = at(0, top * share)
        parts.append(f'<path d="M{x} {y}H{WIDTH - MARGIN}" stroke="#dddddd"/>')
        parts.append(f'<text x="8" y="{y}" font-size="11">{top * share * 1e3:.0f}</text>')
    for number, (name, of) in enumerate(lines.items()):
        path = " ".join(",".join(map(str, at(cost, of[cost]))) for cost in costs)
        dash = ' stroke-dasharray="4"' if name == "ideal" else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"{dash}/>')
        parts.append(f'<text x="{MARGIN + 10}" y="{60 + 18 * number}" fill="{COLOURS[name]}">{name}</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 10}" font-size="12">CPU ms of a batch</text>')
    return "\n".join([*parts, '<text x="8" y="30" font-size="12">ms of a step</text>', "</svg>", ""])


if __name__ == "__main__":
    main()
