"""TensorFlow: its variables, which Keras `tf.keras` is, and what to do about what its scripts fail of."""

from __future__ import annotations

import os
import re

from launch.base.process_spec import Decision
from launch.discovery.devices import Devices
from launch.job.entry_point import MODULE, SCRIPT, EntryPoint
from launch.plan.compiler_choice import SWITCH, XLA
from launch.plan.context import LARGEST_SCRIPT_BYTES, Context
from launch.plan.frameworks import Framework, HostFacts
from launch.plan.strategies import Strategy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# Since then Keras is Keras 3, and there are no Estimators
FIRST_WITH_KERAS_3 = (2, 16)
_VERSION = r"tensorflow(?:_cpu|_gpu|_rocm)?-(\d+)\.(\d+)\b.*\.dist-info"
LEGACY_KERAS = "TF_USE_LEGACY_KERAS"
# As TensorFlow reads it
ON = ("1", "true", "True")


def has_keras_3(installed: frozenset[str]) -> bool:
    """Return whether this TensorFlow's own Keras is Keras 3, false if that is unknown."""
    found = (re.fullmatch(_VERSION, name) for name in installed if name.startswith("tensorflow"))
    return any(match and (int(match[1]), int(match[2])) >= FIRST_WITH_KERAS_3 for match in found)


def _variables(facts: HostFacts) -> dict[str, str]:
    """Return what SageMaker's TensorFlow toolkit sets in its images, unless the user did."""
    if "tensorflow" not in facts.installed:
        return {}
    return {"TF_CPP_MIN_LOG_LEVEL": "1", "S3_REGION": facts.region, "S3_USE_HTTPS": "1"}


def _keras_variables(
    entry: EntryPoint, folder: str, installed: frozenset[str], environ: Mapping[str, str]
) -> tuple[dict[str, str], tuple[Decision, ...]]:
    """Return which Keras `tf.keras` is, with the reason; nothing if TensorFlow has one alone. `folder`: the code.

    The user's own setting stays. Without a word of the script it is Keras 2: Keras 3 fails below some strategies.
    """
    if "tf_keras" not in installed or not has_keras_3(installed):
        return {}, ()
    stated = environ.get(LEGACY_KERAS)
    value, why = ("", "the user's setting") if stated is not None else _choice(dict(_sources(entry, folder)))
    legacy = value if stated is None else stated
    what = Decision(f"tf.keras is Keras {2 if legacy in ON else 3}, {LEGACY_KERAS}={legacy}", why)
    return ({} if stated is not None else {LEGACY_KERAS: value}), (what,)


def _choice(sources: Mapping[str, bytes]) -> tuple[str, str]:
    for name, text in sources.items():
        if re.search(_TRANSFORMERS, text) and re.search(_TF_MODEL, text):
            return "1", f"{name} imports TensorFlow models of transformers"
    for name, text in sources.items():
        if re.search(_KERAS, text):
            return "0", f"{name} imports keras, which is Keras 3, and {_NO_MIX}"
    return "1", f"no script imports keras, which is Keras 3, and {_NO_MIX}"


_NO_MIX = "a model takes layers of one Keras"
_KERAS = rb"(?m)^[ \t]*(?:from[ \t]+|import[ \t]+(?:[\w. \t]+,[ \t]*)*)keras\b"
_TRANSFORMERS = rb"(?m)^[ \t]*(from|import)[ \t]+transformers\b"
_TF_MODEL = rb"\bTF[A-Z]\w*(Model|For[A-Z])"
_IMPORTS = rb"(?m)^[ \t]*(?:from[ \t]+\.*([\w.]*)[ \t]+)?import[ \t]*(\([^)]*|[^#\n]+)"


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
        for module, names in re.findall(_IMPORTS, text):
            for name in [module, *re.findall(rb"[\w.]+", names)]:
                dotted = (module + b"." + name if module and name != module else name).decode("utf-8", "replace")
                waiting += [*_files(dotted, ""), *_files(dotted, os.path.dirname(path))]


def _files(module: str, below: str) -> list[str]:
    """Return where a module may be; `below`: the folder of the file that imports it."""
    path = os.path.join(below, module.replace(".", "/"))
    return [f"{path}.py", f"{path}/__init__.py", f"{path}/__main__.py"]


def _keras_warning(strategy: Strategy, env: Mapping[str, str], installed: frozenset[str]) -> tuple[Decision, ...]:
    """Warn if Keras 3 meets a strategy that it fails under. `env` is that of the processes."""
    if not strategy.needs_keras_2 or env.get(LEGACY_KERAS) in ON or not has_keras_3(installed):
        return ()
    return (Decision("warning: Keras 3 fails below Horovod and MultiWorkerMirroredStrategy", _remedy(env)),)


def _remedy(env: Mapping[str, str]) -> str:
    return f"{_OTHER_IMPORT}{'' if env.get(LEGACY_KERAS) in ON else f', with {LEGACY_KERAS}=1'}"


_OTHER_IMPORT = "import tensorflow.keras or tf_keras in place of keras"
_TENSORFLOW_1 = "the script is written for TensorFlow 1; tensorflow.compat.v1 has its names"
_ESTIMATOR = "TensorFlow has Estimators until 2.15; take such an image"
_S3 = "TensorFlow does not write to s3://; write to SM_MODEL_DIR, which SageMaker uploads"
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


def _compiler_variables(compiler: str, devices: Devices, _dumps: str) -> dict[str, str]:
    if compiler != XLA:
        return {}
    # Else XLA leaves the CPU's operations alone
    on_cpu = "" if devices.num_gpus else " --tf_xla_cpu_global_jit"
    return {"TF_XLA_FLAGS": f"--tf_xla_auto_jit=2{on_cpu}"}


def _compiler_remedy(_context: Context) -> str:
    return f"set {SWITCH}={XLA}"


ROW = Framework(
    "TensorFlow",
    _variables,
    _keras_variables,
    _keras_warning,
    find_advice,
    compilers=(XLA,),
    compiler_variables=_compiler_variables,
    compiler_remedy=_compiler_remedy,
)
