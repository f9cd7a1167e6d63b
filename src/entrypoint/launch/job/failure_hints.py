"""Remedies for failures that many scripts share, read in their last lines. Loaded only when a job has failed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from launch.job.hyperparameters import EQUALS, FLAGS, SDK3, TOOLKIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


_VERSIONS = (
    "the script is written for other versions than the image's; name those of its day in requirements.txt together,"
    " such as transformers==4.45.2, datasets<5 and, for PyTorch, accelerate<1.4"
)
_METRIC = "datasets has no load_metric since 3.0; use evaluate.load, or name datasets<3 in requirements.txt"
_ADASUM = "without GPUs Adasum needs DLC_HOROVOD_CONTROLLER=mpi"
_AWS = "smdistributed is AWS's own and in no public package; torch.distributed or Horovod does the same"
_MEMORY = "shared memory is too small for data loaders; start the container with --shm-size=8g or --ipc=host"
_NO_GPU = 'nccl is for GPUs; use init_process_group("gloo") where torch.cuda.is_available() is false'
_NO_RANKS = "torchrun sets it; the hyperparameter sagemaker_torch_distributed_enabled starts it, not beside that of MPI"
_NUMPY = "the framework does not take this numpy; pip check says which it takes, name such a one in requirements.txt"
_VISION = "pip would bring another PyTorch with {name}; the newest CUDA images have it, for CPUs too"
_PACKAGE = "name the package that holds {name} in a requirements.txt beside the script"

_MISSING = "^ModuleNotFoundError: No module named '"
_NO_NAME = "^ImportError: cannot import name '"

# The first whose words one of the lines has.
_ADVICE = (
    (rf"{_MISSING}smdistributed\b", _AWS),
    (rf"{_MISSING}(?P<name>torch(vision|audio))\b", _VISION),
    (rf"{_MISSING}(?P<name>[\w.]+)'", _PACKAGE),
    (r"^TypeError: \w*(TrainingArguments|Trainer)\.__init__\(\) got an unexpected keyword argument", _VERSIONS),
    (r"^ValueError: Some specified arguments are not used by the HfArgumentParser", _VERSIONS),
    (rf"{_NO_NAME}load_metric' from 'datasets\b", _METRIC),
    (rf"{_NO_NAME}\w+' from '(transformers|datasets|accelerate|huggingface_hub)\b", _VERSIONS),
    (r"No Adasum operation enabled", _ADASUM),
    (r"^TypeError: Unable to convert function return value to a Python type!|_ARRAY_API not found", _NUMPY),
    (r"insufficient shared memory \(shm\)|unable to allocate shared memory|DataLoader worker .* Bus error", _MEMORY),
    (r"environment variable (RANK|WORLD_SIZE) expected, but not set", _NO_RANKS),
    (r"ProcessGroupNCCL is only supported with GPUs|Distributed package doesn't have NCCL", _NO_GPU),
)


def find_hint(lines: Iterable[str], dialect: str) -> str:
    """Return the hint for a script's last lines, "" if none fits. `dialect`: of the script's arguments."""
    # PyTorch says which rank, too
    words = tuple(re.sub(r"^\[rank\d+\]: ?", "", line) for line in lines)
    return hint_for_arguments(words, dialect) or next(
        (
            advice.format_map(match.groupdict())
            for pattern, advice in _ADVICE
            for match in map(re.compile(pattern).search, words)
            if match
        ),
        "",
    )


# A value that the script's parser does not take; argparse's, absl's and click's words.
_BAD_VALUE = (
    r"error: argument (?P<argparse>\S+): invalid .*?: ?'(?P<argparse_value>.*?)'"
    r"|flag --(?P<absl>[\w-]+)=(?P<absl_value>.*?): "
    r"|Error: Invalid value for '?(?P<click>-[\w-]+)'?.*?: '(?P<click_value>.*?)'"
)
# Values that are so because of the dialect: true and false, none at all, Python's list or dict.
_OF_THE_DIALECT = re.compile(r"(true|false|)|[\[{].*", re.IGNORECASE)
# What argparse, absl and click say of arguments that they do not take.
# Compiled only when a script has failed
_REFUSED = (
    r"error: (unrecognized arguments|argument .*(expected|ignored|invalid))"
    r"|Unknown command line flag|FATAL Flags parsing error"
    r"|Error: (No such option|Got unexpected extra argument|Option )"
)
# The option that they do not know. If their first word is a value such as True, its option is known.
_UNKNOWN = r"(?:unrecognized arguments: (?=-)|Unknown command line flag '|[Nn]o such option:? '?)(-{0,2}[A-Za-z][\w-]*)"
# Parsers that are not the script's: a hyperparameter never reaches them.
_NOT_THE_SCRIPT = r"^(torchrun|accelerate|deepspeed|horovodrun)\b"


def hint_for_arguments(lines: Iterable[str], dialect: str) -> str:
    """Return the hint if a script's last lines say that it cannot read its arguments, else ""."""
    own = [line for line in lines if not re.search(_NOT_THE_SCRIPT, line)]
    if bad_value := _hint_for_value(own):
        return bad_value
    said = [line for line in own if re.search(_REFUSED, line)]
    if not said:
        return ""
    if any(re.search(r"--model_dir\b", line) for line in said):
        return "the SDK's TensorFlow estimator sends model_dir; with model_dir=False there it does not"
    if unknown := re.search(_UNKNOWN, said[0]):
        return (
            f"the script has no option {unknown[1]}; a hyperparameter's key is passed as it is written:"
            " log-interval and log_interval are two"
        )
    others = {
        TOOLKIT: "--key value; a true or false is a value",
        FLAGS: "true is the bare flag --key, false leaves it out",
        EQUALS: "--key=value",
        SDK3: "--key value in the file's order, values as JSON",
    }
    ways = "; ".join(f"{name}: {how}" for name, how in others.items() if name != dialect)
    return f"the script does not take its arguments in the dialect {dialect}; try DLC_ARGV_DIALECT ({ways})"


def _hint_for_value(lines: Iterable[str]) -> str:
    """Return advice about a value that is the same in every dialect; empty for none."""
    for match in filter(None, (re.search(_BAD_VALUE, line) for line in lines)):
        found = match.groupdict()
        key = found["argparse"] or found["absl"] or found["click"]
        value = found["argparse_value"] or found["absl_value"] or found["click_value"] or ""
        if not _OF_THE_DIALECT.fullmatch(value):
            return (
                f"the script takes no such value for {key}; correct the hyperparameter {key.lstrip('-')}, now {value!r}"
            )
    return ""
