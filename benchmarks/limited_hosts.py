"""Times a training host with a quarter of a CPU, alone and beside two data hosts: jobs of containers, by `dlc run`.

usage: python benchmarks/limited_hosts.py [IMAGE] [--costs 60,150] [--step-ms 50] [--steps 40] [--runs 3]

The same script, `dataservice_peers/limited_job.py`, runs on every host. Preparing a batch computes for a fixed CPU
time, the "GPU" takes a fixed time for a step. Ideal: a step takes as long as the GPU's, or as the hosts' CPUs need for
a batch. Beside this service runs the protocol of the public example: gRPC that sends bytes. The containers get all of
a machine of two CPUs: nothing else may run beside them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "benchmarks/dataservice_peers"
ALONE, OURS, GRPC = "alone", "this service", "simple gRPC"
TRAINING_CPUS, DATA_CPUS, DATA_HOSTS = 0.25, 0.75, 2
GOAL = 0.9  # of the ideal ratio of both step times
HANGS = 600.0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("image", nargs="?", default="pytorch-2.13-training-cpu-py311")
    parser.add_argument("--costs", default="60,150", help="CPU milliseconds of a batch")
    parser.add_argument("--step-ms", type=float, default=50.0)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    costs = [float(text) for text in arguments.costs.split(",")]
    found: dict[tuple[str, float], list[float]] = {(way, cost): [] for cost in costs for way in (ALONE, OURS, GRPC)}
    for _ in range(arguments.runs):
        for (way, cost), runs in found.items():
            told = {"way": way, "cost": cost, "step": arguments.step_ms, "steps": arguments.steps}
            runs.append(measure(arguments.image, told))
    table({key: statistics.median(runs) for key, runs in found.items()}, costs, arguments.step_ms)


def measure(image: str, told: dict[str, object]) -> float:
    """Milliseconds of a step."""
    if told["way"] == ALONE:
        hosts = ["--hosts", "1", "--cpus", str(TRAINING_CPUS)]
    else:
        hosts = ["--group", f"data_group={DATA_HOSTS}", "--cpus", f"data_group={DATA_CPUS}"]
        hosts += ["--group", "dnn_group=1", "--cpus", f"dnn_group={TRAINING_CPUS}"]
        hosts += ["--hp", "sagemaker_torch_distributed_enabled=true"]
        hosts += ["--hp", 'sagemaker_distribution_instance_groups=["dnn_group"]']
    parameters = [word for name, value in told.items() for word in ("--hp", f"{name}={value}")]
    with tempfile.TemporaryDirectory() as folder:
        command = [str(ROOT / ".venv/bin/dlc"), "run", "--source", str(SCRIPTS), *hosts, *parameters]
        command += ["--output", f"{folder}/job", image, "limited_job.py"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS)
        if done.returncode:
            raise SystemExit(f"{done.stdout}\n{done.stderr}")
        return float(json.loads(Path(folder, "job/model/step.json").read_text()))


def table(found: dict[tuple[str, float], float], costs: list[float], step: float) -> None:
    """Steps in ms, and how near the ratio of both comes to the ideal one."""
    hosts = f"{TRAINING_CPUS} CPU on the training host, {DATA_HOSTS} data hosts of {DATA_CPUS}"
    print(f"{hosts}; {step:g} ms for a GPU's step")
    print("| CPU ms of a batch | alone | this service | simple gRPC | times faster | ideal | of ideal |")
    print("|---|---|---|---|---|---|---|")
    for cost in costs:
        alone, ours, grpc = (found[way, cost] for way in (ALONE, OURS, GRPC))
        ideal = max(step, cost / TRAINING_CPUS) / max(step, cost / (DATA_HOSTS * DATA_CPUS))
        times = alone / ours
        cells = [f"{cost:g}", f"{alone:.0f}", f"{ours:.0f}", f"{grpc:.0f}", f"{times:.2f}", f"{ideal:.2f}"]
        print(f"| {' | '.join(cells)} | {times / ideal:.0%}{'' if times >= GOAL * ideal else ' (MISSED)'} |")


if __name__ == "__main__":
    main()
