"""Driver of a Ray cluster: work for the data group, and a detached actor that would outlive the script."""

import json
import os

import ray


@ray.remote(num_cpus=1, resources={"data": 1})
def square(number):
    return os.environ["SM_CURRENT_HOST"], number * number


@ray.remote(num_cpus=0)
class Lasting:
    def host(self):
        return os.environ["SM_CURRENT_HOST"]


ray.init()
lasting = Lasting.options(name="lasting", lifetime="detached", resources={"data": 1}).remote()
done = ray.get([square.remote(number) for number in range(20)])
found = {
    "hosts": sorted({host for host, _ in done}),
    "squares": [result for _, result in done],
    "lasting": ray.get(lasting.host.remote()),
}
with open("/opt/ml/model/ray.json", "w") as file:
    json.dump(found, file)
print("the script ends", flush=True)
raise SystemExit(3)
