"""What each rank of these scripts writes at its end, for whoever compares the ranks."""

import json
import os


def write(rank, world_size, loss, **more):
    """metrics-rank<N>.json in the output folder; `loss` is of this rank's own weights on data that all ranks have."""
    facts = {"rank": rank, "world_size": world_size, "loss": float(loss), "host": os.environ["SM_CURRENT_HOST"], **more}
    folder = os.environ.get("SM_OUTPUT_DATA_DIR", "output")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"metrics-rank{rank}.json"), "w") as file:
        json.dump(facts, file)
    print(f"done: {facts}")
