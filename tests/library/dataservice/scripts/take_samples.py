"""A training rank: takes batches and writes each as a line of JSON; arguments of RemoteLoader as JSON."""

from __future__ import annotations

import json
import logging
import resource
import sys
import time

from dlc_runtime.dataservice import RemoteLoader


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    path, options = sys.argv[1], json.loads(sys.argv[2])
    epochs, stop_at, step = options.pop("epochs", 1), options.pop("stop_at", None), options.pop("step", 0.0)
    between = options.pop("between", 0.0)
    states = options.pop("state", None)
    stop_servers = options.pop("stop_servers", False)
    with RemoteLoader(**options) as loader, open(path, "w") as out:
        if states is not None:
            loader.load_state_dict(states)
        for _ in range(epochs):
            for number, batch in enumerate(loader):
                out.write(json.dumps([len(item) if isinstance(item, (str, bytes)) else item for item in batch]) + "\n")
                out.flush()
                time.sleep(step)
                if number + 1 == stop_at:
                    break
            time.sleep(between)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        out.write(json.dumps({"state": loader.state_dict(), "length": len(loader), "peak": peak}) + "\n")
        if stop_servers:
            loader.stop_servers()


if __name__ == "__main__":
    main()
