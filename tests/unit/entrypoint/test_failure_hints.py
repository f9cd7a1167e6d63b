"""What many scripts fail with brings its remedy along; other failures are left as they are."""

from __future__ import annotations

import pytest

from launch.job.failure_hints import find_hint
from launch.plan.frameworks import tensorflow as frameworks

IMPORT = "ImportError: cannot import name 'AdamW' from 'transformers' (/opt/venv/lib/python3.11/site-packages/transform"
RENDEZVOUS = "ValueError: Error initializing torch.distributed using env:// rendezvous"
NUMPY = "TypeError: Unable to convert function return value to a Python type! The signature was"
SHM = "RuntimeError: unable to allocate shared memory(shm) for file </torch_10_3626783630_0>: No space left on device"
BUS = "RuntimeError: DataLoader worker (pid 23) is killed by signal: Bus error."


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("ModuleNotFoundError: No module named 'smdebug'", "smdebug in a requirements.txt"),
        ("[rank0]: ModuleNotFoundError: No module named 'einops.layers'", "einops.layers in a requirements.txt"),
        (
            "TypeError: TrainingArguments.__init__() got an unexpected keyword argument 'logging_dir'",
            "requirements.txt",
        ),
        ("TypeError: Seq2SeqTrainer.__init__() got an unexpected keyword argument 'tokenizer'", "datasets<5"),
        ("ValueError: Some specified arguments are not used by the HfArgumentParser: ['--no_cuda']", "datasets<5"),
        (IMPORT, "datasets<5"),
        ("ImportError: cannot import name 'load_metric' from 'datasets' (/opt/venv/lib/python3.11", "evaluate.load"),
        ("ImportError: cannot import name 'BucketNotFoundError' from 'huggingface_hub.errors' (/opt", "datasets<5"),
        ("ModuleNotFoundError: No module named 'smdistributed'", "no public package"),
        ("ModuleNotFoundError: No module named 'torchvision'", "another PyTorch"),
        ("RuntimeError: No Adasum operation enabled", "DLC_HOROVOD_CONTROLLER=mpi"),
        (NUMPY, "pip check"),
        ("train.py: error: unrecognized arguments: --model_dir s3://bucket/model", "model_dir=False"),
        (SHM, "--shm-size=8g"),
        (BUS, "--shm-size=8g"),
        ("ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!", "gloo"),
        ("RuntimeError: Distributed package doesn't have NCCL built in", "gloo"),
        (
            f"{RENDEZVOUS}: environment variable RANK expected, but not set",
            "sagemaker_torch_distributed_enabled starts it, not beside that of MPI",
        ),
        ("train.py: error: unrecognized arguments: True", "DLC_ARGV_DIALECT"),
    ],
)
def test_words_that_many_scripts_fail_with_bring_their_remedy(line: str, remedy: str) -> None:
    assert remedy in find_hint(["Traceback (most recent call last):", line, "and then more"], "toolkit")


@pytest.mark.parametrize(
    "line",
    [
        "TypeError: Net.__init__() got an unexpected keyword argument 'tokenizer'",
        "ImportError: cannot import name 'helper' from 'mine' (/opt/ml/code/mine.py)",
        "looked for: ModuleNotFoundError: No module named 'x', which is fine",
        "CUDA error: out of memory",
    ],
)
def test_other_failures_bring_nothing(line: str) -> None:
    assert find_hint([line], "toolkit") == frameworks.find_advice([line], LEGACY) == ""


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("ImportError: cannot import name 'Adam' from 'keras.optimizers' (/opt/venv/lib/p", "tf_keras"),
        ("AttributeError: module 'tensorflow' has no attribute 'ConfigProto'", "tensorflow.compat.v1"),
        ("ModuleNotFoundError: No module named 'tensorflow.contrib'", "tensorflow.compat.v1"),
        ("ModuleNotFoundError: No module named 'tensorflow.python.estimator'", "until 2.15"),
        ("AttributeError: module 'tensorflow' has no attribute 'estimator'", "until 2.15"),
        (
            "tensorflow.python.framework.errors_impl.UnimplementedError: File system scheme 's3' not implemented",
            "SM_MODEL",
        ),
    ],
)
def test_words_that_many_tensorflow_scripts_fail_with_bring_their_remedy(line: str, remedy: str) -> None:
    assert remedy in frameworks.find_advice(["Traceback (most recent call last):", line, "and then more"], {})


LEGACY, OFF = {"TF_USE_LEGACY_KERAS": "1"}, {"TF_USE_LEGACY_KERAS": "0"}
CALLBACK = '  File "/opt/venv/lib/python3.11/site-packages/horovod/_keras/callbacks.py", line 147, in _adjust'
KERAS_3 = (
    "AttributeError: 'Variable' object has no attribute 'ref'",
    "ValueError: Attempt to convert a value (PerReplica:{",
    "ValueError: Invalid filepath extension for saving. Please add either",
    CALLBACK,
)


@pytest.mark.parametrize("line", KERAS_3)
def test_what_fails_under_keras_3_is_told_to_take_keras_2_and_not_to_set_what_is_set(line: str) -> None:
    lines = [line, "AttributeError: 'SGD' object has no attribute 'lr'"]
    assert (
        "import tensorflow.keras or tf_keras in place of keras, with TF_USE_LEGACY_KERAS=1"
        in frameworks.find_advice(lines, OFF)
    )
    told = frameworks.find_advice(lines, LEGACY)
    assert told.endswith("import tensorflow.keras or tf_keras in place of keras")


def test_a_worker_that_tensorflow_no_longer_hears_is_named() -> None:
    first = "Collective ops is aborted by: The following tasks are unhealthy (stopped sending heartbeats):"
    told = frameworks.find_advice([first, "/job:worker/replica:0/task:1", "The tasks have crashed."], {})
    assert "heard nothing of /job:worker/replica:0/task:1 for 10 s" in told


def test_a_script_that_mixes_two_keras_is_told_so() -> None:
    line = "ValueError: Only instances of `keras.Layer` can be added to a Sequential model. Received: <tf_keras.src"
    assert "TF_USE_LEGACY_KERAS=0" in frameworks.find_advice([line], LEGACY)
    assert frameworks.find_advice([line], OFF) == ""
