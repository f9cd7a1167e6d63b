"""For tests: one script for both groups of an elastic job; data hosts serve numbers, ranks train on them in step.

The first rank saves, after each step, which numbers all ranks have had and where the loader is. Whenever the number of
training hosts has changed, the job goes on from there.
"""

import json
import logging
import time
from pathlib import Path

import torch.distributed as dist

import dlc_runtime
from dlc_runtime.dataservice import RemoteLoader, serve

SAMPLES, BATCH, STEP_SECONDS = 6000, 10, 0.1
# On the first training host, which an elastic job always has.
CHECKPOINT = Path("/opt/ml/checkpoints/taken.json")


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    saved = [json.loads(CHECKPOINT.read_text()) if rank == 0 and CHECKPOINT.exists() else None]
    dist.broadcast_object_list(saved)
    taken = saved[0]["taken"] if saved[0] else []
    with RemoteLoader(tail="drop", patience=120.0) as loader:
        if saved[0]:
            loader.load_state_dict(saved[0]["state"])
        for batch in loader:
            everywhere = [None] * world
            dist.all_gather_object(everywhere, batch)
            for each in everywhere:
                taken += each
            if rank == 0:
                print(f"step {len(taken)} world {world}", flush=True)
                CHECKPOINT.parent.mkdir(exist_ok=True)
                part = CHECKPOINT.with_suffix(".part")
                part.write_text(json.dumps({"taken": taken, "state": loader.state_dict()}))
                part.replace(CHECKPOINT)
            dist.barrier()
            time.sleep(STEP_SECONDS)
    dist.destroy_process_group()


if __name__ == "__main__" and dlc_runtime.cluster().is_training:
    main()
elif __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    serve(list(range(SAMPLES)), list, batch_size=BATCH, shuffle=True, workers=2)
