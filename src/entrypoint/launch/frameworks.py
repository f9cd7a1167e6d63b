"""Which libraries the image holds, by looking at folder names: importing one would take seconds."""

from __future__ import annotations

import glob
import os

KNOWN = ("torch", "torch_xla", "tensorflow", "horovod", "mpi4py")


def framework_variables(installed: frozenset[str], region: str) -> dict[str, str]:
    """What the platform's TensorFlow toolkit sets in its images, where the user did not."""
    if "tensorflow" not in installed:
        return {}
    return {"TF_CPP_MIN_LOG_LEVEL": "1", "S3_REGION": region, "S3_USE_HTTPS": "1"}


def installed(venv: str) -> frozenset[str]:
    """The known libraries in a virtual environment; empty where there is no such environment."""
    folders = glob.glob(f"{glob.escape(venv)}/lib/python3*/site-packages")
    return frozenset(name for name in KNOWN for folder in folders if os.path.isdir(f"{folder}/{name}"))
