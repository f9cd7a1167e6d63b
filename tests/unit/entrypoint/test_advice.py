"""What many scripts fail with brings its remedy along; other failures are left as they are."""

from __future__ import annotations

import pytest

from launch.job import advice

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
        ("AttributeError: 'Variable' object has no attribute 'ref'", "TF_USE_LEGACY_KERAS=1"),
        ("ValueError: Attempt to convert a value (PerReplica:{", "TF_USE_LEGACY_KERAS=1"),
        ("ValueError: Invalid filepath extension for saving. Please add either", "TF_USE_LEGACY_KERAS=1"),
        ("ImportError: cannot import name 'load_metric' from 'datasets' (/opt/venv/lib/python3.11", "evaluate.load"),
        ("ImportError: cannot import name 'BucketNotFoundError' from 'huggingface_hub.errors' (/opt", "datasets<5"),
        ("ModuleNotFoundError: No module named 'smdistributed'", "no public package"),
        ("ModuleNotFoundError: No module named 'torchvision'", "another PyTorch"),
        ("ImportError: cannot import name 'Adam' from 'keras.optimizers' (/opt/venv/lib/p", "tf_keras"),
        ("AttributeError: module 'tensorflow' has no attribute 'ConfigProto'", "tensorflow.compat.v1"),
        ("ModuleNotFoundError: No module named 'tensorflow.contrib'", "tensorflow.compat.v1"),
        ("ModuleNotFoundError: No module named 'tensorflow.python.estimator'", "until 2.15"),
        ("AttributeError: module 'tensorflow' has no attribute 'estimator'", "until 2.15"),
        ("RuntimeError: No Adasum operation enabled", "DLC_HOROVOD_CONTROLLER=mpi"),
        (NUMPY, "pip check"),
        (
            "tensorflow.python.framework.errors_impl.UnimplementedError: File system scheme 's3' not implemented",
            "SM_MODEL",
        ),
        ("train.py: error: unrecognized arguments: --model_dir s3://bucket/model", "model_dir=False"),
        (SHM, "--shm-size=8g"),
        (BUS, "--shm-size=8g"),
        ("ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!", "gloo"),
        ("RuntimeError: Distributed package doesn't have NCCL built in", "gloo"),
        (f"{RENDEZVOUS}: environment variable RANK expected, but not set", "sagemaker_torch_distributed_enabled"),
        ("train.py: error: unrecognized arguments: True", "DLC_ARGV_DIALECT"),
    ],
)
def test_words_that_many_scripts_fail_with_bring_their_remedy(line: str, remedy: str) -> None:
    assert remedy in advice.find(["Traceback (most recent call last):", line, "and then more"], "toolkit")


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
    assert advice.find([line], "toolkit") == ""
