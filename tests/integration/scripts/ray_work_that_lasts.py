"""Driver of a Ray cluster whose work on the data hosts does not end. With `lose_the_head` it kills Ray's head first."""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import ray


@ray.remote(num_cpus=0, resources={"data": 1})
class Worker:
    def host(self):
        return os.environ["SM_CURRENT_HOST"]

    def last(self):
        time.sleep(3600)


ray.init()
workers = [Worker.options(scheduling_strategy="SPREAD").remote() for _ in range(2)]
hosts = sorted(ray.get([worker.host.remote() for worker in workers]))
lasting = [worker.last.remote() for worker in workers]
print(f"work lasts on {' '.join(hosts)}", flush=True)
if "--lose_the_head" in sys.argv:
    for file in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):  # it may have ended since
            if file.read_text() == "gcs_server\n":
                os.kill(int(file.parent.name), signal.SIGKILL)
ray.get(lasting)
