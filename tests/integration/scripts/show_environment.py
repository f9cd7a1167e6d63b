"""A training script that writes down how it was started: argv, environment, working directory."""

import json
import os
import sys
from pathlib import Path

folder = Path(os.environ["SM_OUTPUT_DATA_DIR"])
folder.mkdir(parents=True, exist_ok=True)
started = {"argv": sys.argv[1:], "environment": dict(os.environ), "cwd": str(Path.cwd()), "python": sys.executable}
(folder / "started.json").write_text(json.dumps(started))
