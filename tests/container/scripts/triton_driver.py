"""Lets Triton compile and load the C module that it calls the GPU's driver with; a stand-in plays NVIDIA's libcuda.

The driver is the host's and missing here; what is asked is that Triton finds gcc, Python.h, its own cuda.h and ld.
"""

import ctypes
import os
import re
import subprocess
import tempfile
from pathlib import Path

from triton.backends.nvidia import driver

CUDA_ERROR_NO_DEVICE = 100

with tempfile.TemporaryDirectory() as folder:
    library, source = Path(folder, "libcuda.so.1"), Path(folder, "libcuda.c")
    calls = set(re.findall(r"\bcu[A-Z]\w+(?=\()", Path(driver.__file__).with_name("driver.c").read_text()))
    source.write_text("".join(f"int {call}(void) {{ return {CUDA_ERROR_NO_DEVICE}; }}\n" for call in sorted(calls)))
    subprocess.run(["gcc", "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-o", library, source], check=True)
    library.with_suffix("").symlink_to(library.name)  # libcuda.so, as NVIDIA's container runtime links it
    ctypes.CDLL(str(library))  # where the loader would find the host's
    os.environ["TRITON_LIBCUDA_PATH"] = folder
    print(callable(driver.CudaUtils().load_binary))
