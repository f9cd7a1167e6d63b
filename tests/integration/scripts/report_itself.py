"""Says which host it runs on and what it was given, and leaves a model and an output with its host's name.

Arguments: --word W, printed with each line; --fails H, the host on which it exits with 3
"""

import argparse
import json
import os
import sys
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--word", default="")
parser.add_argument("--fails", default="")
arguments = parser.parse_args()
host = os.environ["SM_CURRENT_HOST"]
channels = {
    name: sorted(path.name for path in Path(os.environ[f"SM_CHANNEL_{name.upper()}"]).iterdir())
    for name in json.loads(os.environ["SM_CHANNELS"])
}
print(f"{arguments.word} {host} of {os.environ['SM_HOSTS']} with {json.dumps(channels)}", flush=True)
for variable in ("SM_MODEL_DIR", "SM_OUTPUT_DATA_DIR"):
    folder = Path(os.environ[variable])
    (folder / host).write_text(arguments.word)
    (folder / "of-every-host").write_text(host)
if host == arguments.fails:
    print("ValueError: channel training holds no parquet file", file=sys.stderr)
    sys.exit(3)
