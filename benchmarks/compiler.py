"""Times trainings eager and compiled, side by side, and what the compiler runtime costs when it is off.

usage: python benchmarks/compiler.py [--torch-python FILE] [--tensorflow-python FILE] [--models bert,gpt] [--quick]
                                     [--minutes M] [--runs N] [--mode auto] [--dropout] [--image ID] [--gpu]
                                     [--json FILE] [--svg FILE]

Prints tables, writes JSON and a picture. Without `--torch-python` and `--tensorflow-python` the Python that runs this
is taken, with what it has. A training is a process, a script of `compiler_models/`: once compiled with an empty cache,
then an eager one and one with that cache, of which one runs at a time for a second, so what the machine does beside it
meets both alike. These two go on, model by model; the first begin always, others only if they can end in `--minutes`.

A compiled training chooses its way by measuring, and its milliseconds are those of the steps after the choice.
`--mode default` compiles without choosing, the others as DLC_COMPILER_MODE does.

The losses of each compiled training are compared with those of the eager one, so the models have no dropout, which
draws other random numbers when it is compiled; `--dropout` trains with it and compares nothing. Losses that differ by
more than the dtype's tolerance, and by more than four times what rounding alone makes of an eager training, are in the
table, and the exit code is 1.

`--image` runs all that in a container of a built image, with its Python and this checkout's library.

`--gpu` trains BERT-base, GPT-2, ResNet-50, ViT and two Llama-like layers on CUDA instead, in float32 and bfloat16, with
the torch of `--torch-python`, in no container; `--largest-batch` also looks for the largest batch of each.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compiling import batch, figures, losses, off
from compiling.figures import COLD, EAGER, ROUNDED, WARM, Case, Measured
from compiling.runs import FailedTrainingError, Pythons, Runner, lacks, pythons

BACKENDS = {"pytorch": "inductor", "tensorflow": "xla"}
ON_CPU = {"pytorch": ("bert", "gpt", "resnet", "vit"), "tensorflow": ("bert", "gpt", "resnet", "vit")}
ON_GPU = ("bert", "gpt", "resnet", "vit", "llama")
DTYPES = ("fp32", "bf16")
CPU_STEPS, GPU_STEPS, QUICK_STEPS = 30, 120, 12
MANY_STEPS = 100_000  # more than the seconds of a training that chooses have room for
# Of one training: compiling, then blocks of steps in which ways take turns. A rounded one has no other beside it.
SECONDS = {EAGER: 24.0, ROUNDED: 12.0, COLD: 60.0, WARM: 24.0}
QUICK_SECONDS = {EAGER: 10.0, ROUNDED: 5.0, COLD: 30.0, WARM: 10.0}
IN_TURNS = f"{EAGER} and {WARM} in turns"
MODES = ("auto", "default", "cuda-graphs", "regional", "max")  # of DLC_COMPILER_MODE
STARTS, STEP_PAIRS = 20, 8
WITHOUT_GPU = 3  # exit code
ROOT = Path(__file__).resolve().parents[1]
IN_IMAGE = "/opt/benchmark"  # where an image has the checkout
ASK_GPU = "import torch; print(torch.cuda.get_device_name() if torch.cuda.is_available() else '', torch.__version__)"


def main() -> None:
    """Measure, print, write."""
    arguments, begun = parsed(), time.monotonic()
    if arguments.image:
        sys.exit(in_image(arguments))
    with tempfile.TemporaryDirectory(prefix="dlc-bench-") as name:
        folder = Path(name)
        environments = usable(arguments, folder)
        if arguments.gpu:
            require_gpu(arguments.torch_python or sys.executable)
        cases = chosen(arguments, environments)
        rows = [] if arguments.gpu or arguments.no_off else off_rows(environments, arguments.quick)
        dropout = None if arguments.dropout else 0.0
        runner = Runner(
            folder / "t", size(arguments), step_count(arguments), environments, seconds(arguments), arguments.mode,
            dropout,
        )  # fmt: skip
        measured = measure(cases, arguments, runner, begun)
        batches = batch.search(cases, folder / "b", environments) if arguments.largest_batch else []
    if not report(measured, rows, batches, arguments) or any(each.failed for each in measured):
        sys.exit(1)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch-python", metavar="FILE")
    parser.add_argument("--tensorflow-python", metavar="FILE")
    parser.add_argument("--models", type=lambda text: text.split(","), help=f"of {', '.join(ON_GPU)}")
    parser.add_argument("--quick", action="store_true", help="tiny models, one repetition: whether this works")
    parser.add_argument(
        "--minutes", type=float, default=12.0, help="no training but each model's first ones begins that may end later"
    )
    parser.add_argument("--runs", type=int, default=3, help="repetitions at most")
    parser.add_argument("--mode", choices=MODES, default="auto", help="how the runtime compiles; auto: it chooses")
    parser.add_argument("--dropout", action="store_true", help="as the models have it; losses are not compared")
    parser.add_argument("--no-off", action="store_true", help="without the cost of the compiler when it is off")
    parser.add_argument("--image", metavar="ID", help="such as pytorch-2.13-training-cpu-py311")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--largest-batch", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path)
    arguments = parser.parse_args()
    unknown = set(arguments.models or ()) - set(ON_GPU)
    if unknown:
        parser.error(f"--models: {', '.join(sorted(unknown))}: expected some of {', '.join(ON_GPU)}")
    if arguments.image and (arguments.torch_python or arguments.tensorflow_python):
        parser.error("--image: its own Python is measured; leave out --torch-python and --tensorflow-python")
    if arguments.largest_batch and not arguments.gpu:
        parser.error("--largest-batch: a host's memory has no hard end as a GPU's has; use it with --gpu")
    return arguments


def in_image(arguments: argparse.Namespace) -> int:
    """This script again, in a container without a network; returns its exit code."""
    ref = f"dlc/{arguments.image.replace('-', ':', 1)}"
    options = ["--rm", "--network", "none", "--entrypoint", "python", "--volume", f"{ROOT}:{IN_IMAGE}:ro"]
    options += ["--gpus", "all"] if arguments.gpu else []
    passed = ["--minutes", str(arguments.minutes), "--runs", str(arguments.runs), "--mode", arguments.mode]
    passed += ["--models", ",".join(arguments.models)] if arguments.models else []
    for name in ("quick", "dropout", "no_off", "gpu", "largest_batch"):
        passed += [f"--{name.replace('_', '-')}"] if getattr(arguments, name) else []
    for name in ("json", "svg"):
        file = getattr(arguments, name)
        if file:
            file.touch()
            options += ["--volume", f"{file.resolve()}:/tmp/out.{name}"]
            passed += [f"--{name}", f"/tmp/out.{name}"]
    script = f"{IN_IMAGE}/{Path(__file__).relative_to(ROOT)}"
    return subprocess.run(["docker", "run", *options, ref, script, *passed], check=False).returncode


def size(arguments: argparse.Namespace) -> str:
    return "tiny" if arguments.quick else "base" if arguments.gpu else "small"


def step_count(arguments: argparse.Namespace) -> int:
    if arguments.mode == "auto":
        return MANY_STEPS
    if arguments.quick:
        return QUICK_STEPS
    return GPU_STEPS if arguments.gpu else CPU_STEPS


def seconds(arguments: argparse.Namespace) -> dict[str, float]:
    """Return how long a training of each kind lasts; nothing if steps alone say it."""
    if arguments.mode != "auto":
        return {}
    return QUICK_SECONDS if arguments.quick else SECONDS


def usable(arguments: argparse.Namespace, folder: Path) -> dict[str, Pythons]:
    """Environments of the frameworks that are there; a framework that was asked for must be."""
    asked = {"pytorch": arguments.torch_python, "tensorflow": arguments.tensorflow_python}
    if arguments.gpu:
        asked = {"pytorch": arguments.torch_python or sys.executable}
    elif not any(asked.values()):
        asked = dict.fromkeys(asked, "")
    else:
        asked = {framework: python for framework, python in asked.items() if python}
    found = {}
    for framework, python in asked.items():
        lacking = lacks(python or sys.executable, framework)
        if not lacking:
            found[framework] = pythons(python or sys.executable, folder / framework)
        elif python:
            sys.exit(f"compiler.py: {python} lacks {', '.join(lacking)}, which {framework}'s trainings import")
        else:
            print(f"left out: {framework} (no {', '.join(lacking)} in {sys.executable})", file=sys.stderr)
    if not found:
        sys.exit("compiler.py: nothing to measure; name a Python with --torch-python or --tensorflow-python")
    return found


def require_gpu(python: str) -> None:
    name, _, version = subprocess.check_output([python, "-c", ASK_GPU], text=True).strip("\n").rpartition(" ")
    if not name:
        print(
            f"compiler.py: --gpu: torch {version} of {python} finds no GPU. Run it on a host with an NVIDIA GPU and a "
            f"torch for CUDA, or without --gpu for the figures of the CPU",
            file=sys.stderr,
        )
        sys.exit(WITHOUT_GPU)


def chosen(arguments: argparse.Namespace, environments: dict[str, Pythons]) -> list[Case]:
    wanted = arguments.models or ON_GPU
    if arguments.gpu:
        return [Case("pytorch", "inductor", m, "cuda", dtype) for m in ON_GPU for dtype in DTYPES if m in wanted]
    return [Case(f, BACKENDS[f], model) for f in environments for model in ON_CPU[f] if model in wanted]


def off_rows(environments: dict[str, Pythons], quick: bool) -> list[figures.Row]:
    any_of = next(iter(environments.values()))
    rows = [off.starts(any_of, STARTS).row]
    if "pytorch" in environments:
        rows.append(off.steps(environments["pytorch"], 2 if quick else STEP_PAIRS).row)
    return rows


def measure(cases: list[Case], arguments: argparse.Namespace, runner: Runner, begun: float) -> list[Measured]:
    """Each case once; then again in turns, until there are enough runs or none can end in time."""
    measured = [Measured(case) for case in cases]
    needed: dict[str, float] = {}  # seconds of a case's eager and warm trainings
    for number in range(1 if arguments.quick else arguments.runs):
        for each in measured:
            left = arguments.minutes * 60 - (time.monotonic() - begun)
            if each.failed or (number and needed[each.case.name] > left):
                continue
            needed[each.case.name] = repeat(each, runner._replace(folder=runner.folder / str(number)), runner.folder)
    return measured


def repeat(measured: Measured, runner: Runner, kept: Path) -> float:
    """Seconds of an eager and a warm training in turns. A case that failed once is left out from then on, and told."""
    cache = kept / "caches" / measured.case.name.replace(" ", "-")
    seconds: dict[str, float] = {}
    try:
        if not measured.cold:
            started = time.monotonic()
            measured.cold.append(runner.train(measured.case, COLD, cache))
            seconds[COLD] = time.monotonic() - started
            if runner.dropout is not None:
                measured.rounded.append(runner.train(measured.case, ROUNDED))
        started = time.monotonic()
        eager, warm = runner.train_in_turns(measured.case, {EAGER: None, WARM: cache})
        seconds[IN_TURNS] = time.monotonic() - started
        measured.eager.append(eager)
        measured.warm.append(warm)
    except FailedTrainingError as fault:
        measured.failed = str(fault).splitlines()[0]
        print(fault, file=sys.stderr)
    print(f"{measured.case.name}: {', '.join(f'{kind} {own:.0f} s' for kind, own in seconds.items())}", file=sys.stderr)
    return seconds.get(IN_TURNS, 0.0)


def report(
    measured: list[Measured], off_rows: list[figures.Row], batches: list[figures.Row], arguments: argparse.Namespace
) -> bool:
    """Print and write what was measured; return whether all losses are those of the eager trainings."""
    found = []
    for each in measured:
        try:
            found += [figures.figure(each)] if not each.failed else []
        except ValueError as fault:  # nothing was compiled, or a loss is no number
            each.failed = str(fault)
    rows = [*figures.means(found), *batches, *off_rows]
    value = {"date": time.strftime("%Y-%m-%d"), "host": host_shape(), **software(measured)}
    print("; ".join(str(part) for part in value.values()), "\n")
    print(figures.table(found, {each.case.name: each.failed for each in measured if each.failed}), "\n")
    print(figures.row_table(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps(value | figures.as_json(found, rows, measured), indent=1))
    if arguments.svg:
        arguments.svg.write_text(figures.svg(found))
    return all(losses.is_same(each.loss_difference) for each in found)


def software(measured: list[Measured]) -> dict[str, str]:
    runs = [run for each in measured for run in each.eager[:1]]
    return {
        "software": "; ".join(dict.fromkeys(run.framework for run in runs)),
        "device": "; ".join(dict.fromkeys(run.device for run in runs)),
    }


def host_shape() -> str:
    """Cores, memory and system: what a figure cannot be read without."""
    memory = int(Path("/proc/meminfo").read_text().split()[1]) // 1_000_000
    return f"{os.cpu_count()} cores, {memory} GB, {platform.platform(terse=True)}, {platform.machine()}"


if __name__ == "__main__":
    main()
