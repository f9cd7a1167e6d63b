"""For tests: data hosts serve numbers as they are; a training rank writes each batch as a line of JSON."""

import argparse
import json
import os
import time
from pathlib import Path

import dlc_runtime
from dlc_runtime.dataservice import RemoteLoader, serve

parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int)
parser.add_argument("--batch-size", type=int)
parser.add_argument("--seed", type=int)
parser.add_argument("--take", type=float)  # seconds of training on a batch
options = parser.parse_args()

if dlc_runtime.cluster().is_training:
    output = Path(os.environ["SM_OUTPUT_DATA_DIR"])
    output.mkdir(parents=True, exist_ok=True)
    with RemoteLoader() as loader, open(output / f"batches-rank{os.environ['RANK']}.jsonl", "w") as out:
        for batch in loader:
            out.write(json.dumps(batch) + "\n")
            out.flush()
            time.sleep(options.take)
else:
    numbers = range(options.samples)
    serve(numbers, list, batch_size=options.batch_size, shuffle=True, seed=options.seed, workers=2)
