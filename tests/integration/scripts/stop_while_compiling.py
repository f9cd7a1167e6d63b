"""Has the job stopped while a C++ compiler works for torch.compile, and saves; run again it compiles to the end."""

import contextlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch

checkpoint = Path("/opt/ml/checkpoints/saved")


def save(*_: object) -> None:
    checkpoint.write_text("saved")
    sys.exit(0)


def programs() -> set[str]:
    """All that run in this container, by name."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            found.add(path.read_text().strip())
    return found


def stop_when_it_compiles() -> None:
    while "cc1plus" not in programs():
        time.sleep(0.01)
    print("stopped while it compiles", flush=True)
    os.kill(os.getppid(), signal.SIGTERM)  # the launcher, as `docker stop` does


signal.signal(signal.SIGTERM, save)
if not checkpoint.exists():
    threading.Thread(target=stop_when_it_compiles, daemon=True).start()
model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()) for _ in range(8)))
loss = torch.compile(lambda batch: model(batch).square().mean(), backend="inductor")
loss(torch.randn(16, 8)).backward()
print("compiled to the end", flush=True)
if not checkpoint.exists():
    time.sleep(600)  # the stop is on its way
