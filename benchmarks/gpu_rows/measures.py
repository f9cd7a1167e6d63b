"""What the rows measure: each starts processes, waits for what they write, and returns figures for the report."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from compiling import runs

from gpu_rows.host import Host
from gpu_rows.processes import Command, run
from gpu_rows.rows import Result

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "benchmarks/compiler_models"
PROGRAMS = ROOT / "benchmarks/gpu_programs"
LAUNCHER = ROOT / "src/entrypoint/launcher.py"
INDUCTOR = {"DLC_COMPILER": "inductor"}
EAGER, ROUNDED, AUTO, GRAPHS, DEFAULT = "eager", "rounded", "auto", "CUDA graphs", "inductor"
WAYS = {
    EAGER: {"DLC_COMPILER": "off"},
    ROUNDED: {"DLC_COMPILER": "off"},  # eager, its first weights off by rounding
    AUTO: INDUCTOR | {"DLC_COMPILER_MODE": "auto", "DLC_COMPILER_BUDGET": "60,5%"},  # candidates begin at once
    GRAPHS: INDUCTOR | {"DLC_COMPILER_MODE": "cuda-graphs"},
    DEFAULT: INDUCTOR | {"DLC_COMPILER_MODE": "default"},
}
LATEST = 20  # steps at a training's end whose median is its speed
AHEAD_STEPS = 10  # five eager ones, one that compiles, and some compiled ones
AFTER_CHOICE = 20  # steps whose losses are compared after the runtime has chosen


# -- the five models ------------------------------------------------------------------------------------------------


def compile_ahead(host: Host, models: Sequence[str], dtype: str, ways: Sequence[str], bound: float) -> dict[str, Any]:
    """Compile all models at once with an empty cache, so that the rows after it find their code there."""
    seconds: dict[str, float] = {}
    for way in ways:
        places = {model: host.folder / "ahead" / f"{model}-{WAYS[way]['DLC_COMPILER_MODE']}" for model in models}
        run([training(host, places[m], m, dtype, way, AHEAD_STEPS, bound) for m in models], bound / len(ways))
        seconds |= {f"{model}, {way}": read(place / "report/report.json")["compile_seconds"]
                    for model, place in places.items()}  # fmt: skip
    return {"compile_seconds": seconds}


def train(host: Host, model: str, dtype: str, way: str, steps: int, seconds: float, bound: float) -> dict[str, Any]:
    """Train a model one way, for `steps` steps or `seconds` at most."""
    place = host.folder / f"{model}-{dtype}-{way.replace(' ', '-')}"
    run([training(host, place, model, dtype, way, steps, seconds)], bound)
    told = read(place / "out.json")
    figures = {"model": model, "dtype": dtype, "way": way, **speed(told["seconds"], median), "losses": told["losses"]}
    figures |= {"peak_gb": told["peak_bytes"] / 1e9, "framework": told["framework"]}
    return figures if way in (EAGER, ROUNDED) else figures | told_by(read(place / "report/report.json"))


def training(host: Host, place: Path, model: str, dtype: str, way: str, steps: int, seconds: float) -> Command:
    size = "tiny" if host.rehearse else "base"
    argv = [str(host.python), str(MODELS / "pytorch_training.py"), "--model", model, "--size", size, "--dropout", "0"]
    argv += ["--steps", str(steps), "--seconds", str(seconds), "--device", host.device, "--dtype", dtype]
    argv += ["--rounding"] if way == ROUNDED else []
    place.mkdir(parents=True, exist_ok=True)
    cache = host.folder / "cache" / f"{model}-{dtype}"
    environ = environment(place, WAYS[way] | {"DLC_COMPILE_CACHE": str(cache)})
    return Command(f"{model} {dtype} {way}", [*argv, "--out", str(place / "out.json")], environ, place / "log")


def environment(place: Path, more: Mapping[str, str], every_gpu: bool = False) -> dict[str, str]:
    """Return the environment of a row's process: its reports and temporary files are below `place`.

    It sees one GPU: with several a Trainer without ranks trains by DataParallel, of which nothing is compiled.
    """
    own = place / "tmp"
    own.mkdir(parents=True, exist_ok=True)
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
    gpu = {} if every_gpu else {"CUDA_VISIBLE_DEVICES": first}
    return runs.clean({"TMPDIR": str(own), "DLC_COMPILER_REPORT": str(place / "report"), **gpu, **more})


def speed(seconds: Sequence[float], of: Callable[[Sequence[float]], float]) -> dict[str, Any]:
    """Return the milliseconds of a step: the median or the mean of the latest ones."""
    if not seconds:
        raise ValueError("no step was made")
    latest = seconds[-min(LATEST, max(1, len(seconds) // 2)) :]
    return {"ms": 1000 * of(latest), "steps": len(seconds)}


def told_by(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the runtime's report says of compiling and of its choice."""
    stays = [f"{entry['module']}: {entry['reason']}" for entry in report.get("eager", [])]
    found = {"compile_seconds": report["compile_seconds"], "not_compiled": stays}
    found["compiled_steps"] = report["steps"]["after"]["steps"]  # those in which nothing was compiled any more
    if not report.get("choosing"):
        return found
    return found | {"choosing": {**report["choosing"], "candidates": report["ways"]}}


def steps_to_compare(done: Mapping[str, Result], row: str, otherwise: int) -> int:
    """Return how many steps an eager training has to make so that losses after the runtime's choice are compared."""
    figures = done[row].figures if row in done else {}
    if not figures:
        return otherwise
    chosen = figures.get("choosing", {}).get("from_step") or figures["steps"]
    return int(min(figures["steps"], chosen + AFTER_CHOICE))


# -- jobs of the launcher -------------------------------------------------------------------------------------------


def trainer(host: Host, way: str, steps: int, seconds: float, bound: float) -> dict[str, Any]:
    """Train BERT by Hugging Face's Trainer, unchanged, in a job of the launcher."""
    place = host.folder / f"trainer-{way}"
    cache = str(host.folder / "cache/trainer")
    launch(host, place, steps, seconds, WAYS[way] | {"DLC_COMPILE_CACHE": cache}, bound)
    told = read(place / "ml/output/data/found.json")
    figures = {
        "dtype": told["dtype"],
        "way": way,
        **speed(told["seconds"], mean),
        "losses": told["losses"],
        "peak_gb": told["peak_bytes"] / 1e9,
    }
    return figures if way == EAGER else figures | told_by(read(place / "report/report.json"))


def profile(host: Host, steps: int, seconds: float, bound: float) -> dict[str, Any]:
    """Measure what the same job, compiled, waits for."""
    place = host.folder / "profile"
    wanted = {"DLC_PROFILE": "1", "DLC_PROFILE_REPORT": str(place / "profile"), "DLC_PROFILE_STEPS": str(steps)}
    cache = {"DLC_COMPILE_CACHE": str(host.folder / "cache/trainer")}
    launch(host, place, 100 * steps, seconds, WAYS[AUTO] | cache | wanted, bound)  # the seconds end it
    told = read(place / "profile/rank-0.json")
    total = told["waiting_seconds"] + told["computing_seconds"]
    figures = {"waiting_share": told["waiting_seconds"] / total, "step_ms": 1000 * told["step_seconds"]}
    figures |= {"steps": told["steps"], "cpu": told["cpu"], "gpu": told["gpu"]}
    return figures


def launch(host: Host, place: Path, steps: int, seconds: float, more: Mapping[str, str], bound: float) -> None:
    """Run the Trainer's script as `train` runs a job on one host; what it writes is below `place`."""
    base = place / "ml"
    for name in ("input/config", "code"):
        (base / name).mkdir(parents=True, exist_ok=True)
    for source in (PROGRAMS / "trainer_job.py", MODELS / "shapes.py"):
        (base / "code" / source.name).write_text(source.read_text())
    size = "tiny" if host.rehearse else "base"
    parameters = {"sagemaker_program": "trainer_job.py", "steps": steps, "seconds": seconds, "size": size}
    told = {name: json.dumps(value) for name, value in parameters.items()}
    (base / "input/config/hyperparameters.json").write_text(json.dumps(told))
    job = {"SAGEMAKER_BASE_DIR": str(base), "DLC_VENV": str(host.python.parents[1]), "USE_TORCH_XLA": "0"}
    argv = [str(host.python), "-I", "-S", str(LAUNCHER), "train"]
    run([Command(place.name, argv, environment(place, {**more, **job}), place / "log")], bound)


# -- feeding, and the suite -----------------------------------------------------------------------------------------


def feed(host: Host, source: str, bound: float) -> dict[str, Any]:
    """Feed a small model from `source`: local or remote."""
    place = host.folder / f"feed-{source}"
    argv = [str(host.python), str(PROGRAMS / "feeding.py"), source, "--device", host.device]
    argv += ["--out", str(place / "out.json"), *(["--small"] if host.rehearse else [])]
    environ = environment(place, {"DLC_COMPILER": "off", "DLC_DATA_TOKEN": "of this benchmark"})
    run([Command(f"feeding, {source}", argv, environ, place / "log")], bound)
    return dict(read(place / "out.json"))


def suite(host: Host, bound: float) -> dict[str, Any]:
    """Run tests/gpu with the host's own Python."""
    place = host.folder / "suite"
    argv = [str(host.python), "-m", "pytest", str(ROOT / "tests/gpu"), "--in-place", "--quiet"]
    argv.append(f"--junitxml={place / 'tests.xml'}")
    environ = environment(place, {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, every_gpu=True)
    run([Command("tests/gpu", argv, environ, place / "log")], bound)
    cases = list(ElementTree.parse(place / "tests.xml").iter("testcase"))
    skipped = [case.find("skipped") for case in cases]
    reasons = sorted({each.get("message", "") for each in skipped if each is not None})
    absent = sum(each is not None for each in skipped)
    return {"passed": len(cases) - absent, "skipped": absent, "reasons": reasons}


def read(file: Path) -> Any:
    return json.loads(file.read_text())
