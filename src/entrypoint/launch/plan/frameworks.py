"""Which libraries the image holds, by folder names: importing takes seconds; which Keras, whether Horovod has GPUs."""

from __future__ import annotations

import glob
import os
import re

from launch.base.errors import CONFIG, LaunchError
from launch.base.files import can_make_folder
from launch.base.paths import Paths
from launch.base.process_spec import Decision
from launch.discovery.devices import Devices
from launch.job.entry_point import MODULE, SCRIPT, EntryPoint
from launch.plan.context import LARGEST_SCRIPT_BYTES, Context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from launch.plan.strategies import Strategy

KNOWN = ("torch", "torch_xla", "tensorflow", "tf_keras", "horovod", "mpi4py", "ray")
# This one or a later one: Keras is Keras 3, and there are no Estimators
TENSORFLOW_2_16 = "tensorflow 2.16"
LEGACY_KERAS = "TF_USE_LEGACY_KERAS"
# As TensorFlow reads it
ON = ("1", "true", "True")


def framework_variables(installed: frozenset[str], region: str) -> dict[str, str]:
    """Return what the platform's TensorFlow toolkit sets in its images, unless the user did."""
    if "tensorflow" not in installed:
        return {}
    return {"TF_CPP_MIN_LOG_LEVEL": "1", "S3_REGION": region, "S3_USE_HTTPS": "1"}


def keras_variables(
    entry: EntryPoint, folder: str, installed: frozenset[str], environ: Mapping[str, str]
) -> tuple[dict[str, str], tuple[Decision, ...]]:
    """Return which Keras `tf.keras` is, with the reason; nothing if TensorFlow has one alone. `folder`: the code.

    The user's own setting stays. Without a word of the script it is Keras 2: Keras 3 fails below some strategies.
    """
    if not installed >= {TENSORFLOW_2_16, "tf_keras"}:
        return {}, ()
    stated = environ.get(LEGACY_KERAS)
    value, why = ("", "the user's setting") if stated is not None else _choice(dict(_sources(entry, folder)))
    legacy = value if stated is None else stated
    what = Decision(f"tf.keras is Keras {2 if legacy in ON else 3}, {LEGACY_KERAS}={legacy}", why)
    return ({} if stated is not None else {LEGACY_KERAS: value}), (what,)


def _choice(sources: Mapping[str, bytes]) -> tuple[str, str]:
    for name, text in sources.items():
        if re.search(rb"^[ \t]*(from|import)[ \t]+transformers\b", text, re.MULTILINE) and _TF_MODEL.search(text):
            return "1", f"{name} imports TensorFlow models of transformers"
    for name, text in sources.items():
        if _KERAS.search(text):
            return "0", f"{name} imports keras, which is Keras 3, and {_NO_MIX}"
    return "1", f"no script imports keras, which is Keras 3, and {_NO_MIX}"


_NO_MIX = "a model takes layers of one Keras"
_KERAS = re.compile(rb"^[ \t]*(?:from[ \t]+|import[ \t]+(?:[\w. \t]+,[ \t]*)*)keras\b", re.MULTILINE)
_TF_MODEL = re.compile(rb"\bTF[A-Z]\w*(Model|For[A-Z])")
_IMPORTS = re.compile(rb"^[ \t]*(?:from[ \t]+\.*([\w.]*)[ \t]+)?import[ \t]*(\([^)]*|[^#\n]+)", re.MULTILINE)


def _sources(entry: EntryPoint, folder: str) -> Iterator[tuple[str, bytes]]:
    """Return the entry point's source and those of modules in `folder` that it imports, by path below that."""
    waiting = [entry.name] if entry.kind == SCRIPT else _files(entry.name, "") if entry.kind == MODULE else []
    seen = set()
    while waiting:
        path = os.path.normpath(waiting.pop(0))
        if path in seen or not os.path.isfile(f"{folder}/{path}"):
            continue
        seen.add(path)
        with open(f"{folder}/{path}", "rb") as file:
            text = file.read(LARGEST_SCRIPT_BYTES)
        yield path, text
        for module, names in _IMPORTS.findall(text):
            for name in [module, *re.findall(rb"[\w.]+", names)]:
                dotted = (module + b"." + name if module and name != module else name).decode("utf-8", "replace")
                waiting += [*_files(dotted, ""), *_files(dotted, os.path.dirname(path))]


def _files(module: str, below: str) -> list[str]:
    """Return where a module may be; `below`: the folder of the file that imports it."""
    path = os.path.join(below, module.replace(".", "/"))
    return [f"{path}.py", f"{path}/__init__.py", f"{path}/__main__.py"]


def keras_warning(strategy: Strategy, env: Mapping[str, str], installed: frozenset[str]) -> tuple[Decision, ...]:
    """Warn if Keras 3 meets a strategy that it fails under. `env` is that of the processes."""
    if not strategy.needs_keras_2 or TENSORFLOW_2_16 not in installed or env.get(LEGACY_KERAS) in ON:
        return ()
    return (Decision("warning: Keras 3 fails below Horovod and MultiWorkerMirroredStrategy", _remedy(env)),)


def _remedy(env: Mapping[str, str]) -> str:
    return f"{_OTHER_IMPORT}{'' if env.get(LEGACY_KERAS) in ON else f', with {LEGACY_KERAS}=1'}"


_OTHER_IMPORT = "import tensorflow.keras or tf_keras in place of keras"
_TENSORFLOW_1 = "the script is written for TensorFlow 1; tensorflow.compat.v1 has its names"
_ESTIMATOR = "TensorFlow has Estimators until 2.15; take such an image"
_S3 = "TensorFlow does not write to s3://; write to SM_MODEL_DIR, which the platform uploads"
_KERAS_2 = "the script is written for Keras 2"
_SILENT = "TensorFlow heard nothing of {} for 10 s, its own bound: that task of TF_CONFIG was paused, or is gone"
_NO_V1 = "'(ConfigProto|Session|layers|logging|placeholder)'"

# The first that is found in the last words; the remedy is added to what ends with a semicolon.
_ADVICE = (
    (r"^ModuleNotFoundError: No module named 'tensorflow\.(contrib|examples)\b", _TENSORFLOW_1),
    (r"^\w+Error: (No )?module .*'tensorflow\b.*\bestimator'", _ESTIMATOR),
    (r"^ImportError: cannot import name '\w+' from 'keras\b", f"{_KERAS_2}; {_OTHER_IMPORT}"),
    (rf"^AttributeError: module 'tensorflow' has no attribute {_NO_V1}", _TENSORFLOW_1),
    (r"File system scheme 's3' not implemented", _S3),
    (
        r"'Variable' object has no attribute 'ref'|\bPerReplica\b|/horovod/(_keras|keras|tensorflow/keras)/",
        "Keras 3 fails below Horovod and MultiWorkerMirroredStrategy;",
    ),
    (r"^ValueError: Invalid filepath extension for saving", f"{_KERAS_2};"),
    (r"stopped sending heartbeats\W+(/job:\S+)", _SILENT),
)
_MIXED = r"Only instances of `?keras|KerasTensor|Could not interpret (optimizer|initializer|metric|loss)"


def find_advice(lines: Iterable[str], env: Mapping[str, str]) -> str:
    """Return what to do about a TensorFlow script's last lines, "" if no advice fits. `env`: the script's."""
    text = "\n".join(re.sub(r"^\[rank\d+\]: ?", "", line) for line in lines)
    for pattern, remedy in _ADVICE:
        if match := re.search(pattern, text, re.MULTILINE):
            return f"{remedy} {_remedy(env)}" if remedy.endswith(";") else remedy.format(match[match.re.groups])
    if env.get(LEGACY_KERAS) in ON and re.search(_MIXED, text):
        return f"the script mixes keras, which is Keras 3, with tf.keras; {_OTHER_IMPORT}, or set {LEGACY_KERAS}=0"
    return ""


def accelerate_variables(devices: Devices, installed: frozenset[str], uses_xla: bool) -> dict[str, str]:
    """Return what Hugging Face's accelerate, below every Trainer, has to be told: it would guess wrong.

    Without an accelerator each rank would train a model of its own; with torch_xla in the image it would take that.
    """
    # Whose cores are reached through torch_xla
    if uses_xla or devices.num_neurons:
        return {}
    variables = {}
    if "torch_xla" in installed:
        variables["USE_TORCH_XLA"] = "0"
    if ("torch" in installed or not installed) and not devices.num_gpus:
        variables["ACCELERATE_USE_CPU"] = "true"
    return variables


# From this version on the older name of the buffer's size is deprecated
FIRST_WITH_FR_NAMES = (2, 13)


def flight_recorder_variables(paths: Paths, run_dir: str, venv: str) -> dict[str, str]:
    """Switch on NCCL's flight recorder in PyTorch: it dumps the last collectives on a timeout or when asked."""
    # Only hosts with GPUs need it
    from launch.plan.compiler_support import torch_version

    version = re.match(r"(\d+)\.(\d+)", torch_version(venv))
    is_new = version is None or (int(version[1]), int(version[2])) >= FIRST_WITH_FR_NAMES
    variables = {
        # Collectives
        "TORCH_FR_BUFFER_SIZE" if is_new else "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": f"{paths.launcher}/nccl_trace_rank_",
    }
    # A rank that cannot make its pipe there gives up
    if can_make_folder(run_dir):
        variables["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] = f"{run_dir}/nccl_trace_rank_"
    return variables


def find_installed(venv: str) -> frozenset[str]:
    """Return the known libraries in a virtual environment; empty if there is no such environment."""
    folders = glob.glob(f"{glob.escape(venv)}/lib/*/site-packages")
    names = [name for name in KNOWN for folder in folders if os.path.isdir(f"{folder}/{name}")]
    if "tensorflow" in names:
        found = [_VERSION.fullmatch(name) for folder in folders for name in os.listdir(folder)]
        if any(match and (int(match[1]), int(match[2])) >= (2, 16) for match in found):
            names.append(TENSORFLOW_2_16)
    return frozenset(names)


_VERSION = re.compile(r"tensorflow(?:_cpu|_gpu|_rocm)?-(\d+)\.(\d+)\b.*\.dist-info")

# Left by the image's build with the reason as its text. Another Horovod, which the user installs, has no such file.
WITHOUT_NCCL = "lib/python3*/site-packages/horovod/without_nccl.py"
_IMPORT = re.compile(rb"^(import|from)[ \t]+horovod\b", re.MULTILINE)


def imports_horovod(context: Context) -> bool:
    """Return whether the script imports Horovod, not only if it is there or asked for."""
    return context.script_has(_IMPORT)


def require_gpus(context: Context) -> None:
    """Raise LaunchError if Horovod would meet GPUs that it cannot use."""
    found = glob.glob(f"{glob.escape(context.venv)}/{WITHOUT_NCCL}") if context.devices.num_gpus else []
    if not found:
        return
    raise LaunchError(
        CONFIG,
        "on GPUs it would abort",
        where="Horovod of this image",
        expected="NCCL in it",
        found=_reason(found[0]),
        remedy="take an image with CUDA 12 or 13, or set CUDA_VISIBLE_DEVICES to nothing and train on the CPU",
    )


def _reason(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip().strip('"')
