"""What to do about a failure that many scripts share, read in their last words. Imported only when a job has failed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from launch.job.arguments import refused

_VERSIONS = (
    "the script is written for other versions than the image's; name those of its day in requirements.txt together,"
    " such as transformers==4.45.2, datasets<5 and, for PyTorch, accelerate<1.4"
)
_METRIC = "datasets has no load_metric since 3.0; use evaluate.load, or name datasets<3 in requirements.txt"
_ADASUM = "without GPUs Adasum needs DLC_HOROVOD_CONTROLLER=mpi"
_AWS = "smdistributed is AWS's own and in no public package; torch.distributed or Horovod does the same"
_MEMORY = "shared memory is too small for data loaders; start the container with --shm-size=8g or --ipc=host"
_NO_GPU = 'nccl is for GPUs; use init_process_group("gloo") where torch.cuda.is_available() is false'
_NO_RANKS = "nothing asked for ranks; the hyperparameter sagemaker_torch_distributed_enabled starts them"
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


def find(lines: Iterable[str], dialect: str) -> str:
    """The advice that fits a script's last lines, "" for failures of its own. `dialect` is of its arguments."""
    words = tuple(re.sub(r"^\[rank\d+\]: ?", "", line) for line in lines)  # PyTorch says which rank, too
    return refused(words, dialect) or next(
        (
            advice.format_map(match.groupdict())
            for pattern, advice in _ADVICE
            for match in map(re.compile(pattern).search, words)
            if match
        ),
        "",
    )
