"""Driver of a job that `ray job submit` sends: work that needs both pods at once."""

import socket
import time

import ray
import torch


@ray.remote(num_cpus=1)
def add_up(size):
    return socket.gethostname(), torch.ones(size).sum().item()


ray.init()
# The job may begin before the second pod has joined.
while ray.cluster_resources().get("CPU", 0) < 2:
    time.sleep(0.5)
placement = ray.util.placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
ray.get(placement.ready())
placed = [add_up.options(placement_group=placement, placement_group_bundle_index=index) for index in range(2)]
found = ray.get([work.remote(size) for size, work in enumerate(placed, 1)])
print("added up on", *sorted(host for host, _ in found), sum(total for _, total in found), flush=True)
