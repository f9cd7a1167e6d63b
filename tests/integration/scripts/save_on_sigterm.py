"""A training script that saves when it is told to stop, as spot training needs it, and says what it was given."""

import os
import signal
import sys
import time
from pathlib import Path


def save_and_leave(number: int, frame: object) -> None:
    """Saving takes a moment, as it does for a real model."""
    time.sleep(1)
    folder = Path(os.environ["SM_MODEL_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "saved-on-signal").write_text(str(number))
    sys.exit(0)


signal.signal(signal.SIGTERM, save_and_leave)
print("ready to be stopped", flush=True)
while True:
    time.sleep(0.1)
