"""Counts steps until it is told that its machine goes away, saves the step, and goes on from it at the next start.

Each host saves for itself. The first start never ends by itself; a later one does some steps more, and says as its
model where it began and where it ended.
"""

import json
import os
import signal
import time
from pathlib import Path

STEPS_MORE = 5
SECONDS_PER_STEP = 0.05
host = os.environ["SM_CURRENT_HOST"]
# On a node without a container the job's folder is elsewhere.
saved = Path(os.environ["SM_MODEL_DIR"]).parent / "checkpoints" / host
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(time.monotonic()))

begun = json.loads(saved.read_text()) if saved.exists() else 0
last = begun + STEPS_MORE if begun else None
print(f"{host} begins at step {begun}", flush=True)
step = begun
while step != last and not told:
    time.sleep(SECONDS_PER_STEP)
    step += 1
    if step == begun + 3:
        print(f"{host} trains", flush=True)
if told:
    saved.write_text(json.dumps(step))
    raise SystemExit(0)
Path(os.environ["SM_MODEL_DIR"], host).write_text(json.dumps([begun, step]))
