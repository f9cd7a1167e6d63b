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
parser.add_argument("--hold", type=int)  # after so many batches a rank waits for the file GO
options = parser.parse_args()
GO = Path("/opt/ml/input/go")

if dlc_runtime.cluster().is_training:
    output = Path(os.environ["SM_OUTPUT_DATA_DIR"])
    output.mkdir(parents=True, exist_ok=True)
    with RemoteLoader() as loader, open(output / f"batches-rank{os.environ['RANK']}.jsonl", "w") as out:
        for number, batch in enumerate(loader, 1):
            out.write(json.dumps(batch) + "\n")
            out.flush()
            time.sleep(options.take)
            while number == options.hold and not GO.exists():
                time.sleep(0.1)
else:
    numbers = range(options.samples)
    serve(numbers, list, batch_size=options.batch_size, shuffle=True, seed=options.seed, workers=2)
