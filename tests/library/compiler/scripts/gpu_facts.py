"""What the report says of a GPU, with a driver and a torch that answer as those of one do."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import torch

from dlc_runtime.compiler.pytorch import comparison, module_selection, torch_facts


class Driver:
    def __init__(self, refuses=0):
        self.asked, self.refuses = 0, refuses

    def nvmlInit_v2(self):  # noqa: N802
        return 0

    def nvmlDeviceGetHandleByUUID(self, uuid, device):  # noqa: N802
        return self.refuses or int(uuid != b"GPU-11aa")

    def nvmlDeviceGetUtilizationRates(self, device, use):  # noqa: N802
        self.asked += 1
        use._obj.gpu = 60 + 20 * self.asked
        return 0


def gpu(capability):
    return SimpleNamespace(name="NVIDIA H200", uuid="11aa", total_memory=150e9, major=capability, minor=0)


before = torch_facts.gpu
before.sample(0.0)  # no GPU is used yet
torch.cuda.is_initialized = lambda: True
torch.cuda.current_device = lambda: 0
torch.cuda.max_memory_allocated = lambda: 13.6e9
torch.cuda.get_device_name = lambda: "NVIDIA H200"
found = {"before": before.samples}

driver = Driver()
torch_facts.gpu = torch_facts.Gpu(driver)
torch.cuda.get_device_properties = lambda device: gpu(9)
for second in (0.0, 0.1, 0.9, 1.0):
    torch_facts.gpu.sample(second)
found["asked"] = driver.asked
found["busy"] = torch_facts.report_notes()

torch_facts.gpu = torch_facts.Gpu(Driver(refuses=6))
torch_facts.gpu.sample(0.0)
cuda = SimpleNamespace(is_cuda=True, dtype=torch.float32)
torch_facts.note_training([cuda], autocast=False)
found["off"] = torch_facts.report_notes()
torch.cuda.get_device_properties = lambda device: gpu(7)
found["without"] = torch_facts.report_notes()
torch.cuda.get_device_properties = lambda device: gpu(9)
torch_facts.note_training([cuda], autocast=True)
found["autocast"] = torch_facts.report_notes()
torch_facts.note_training([cuda], autocast=False)


class Clock:
    """Eager code takes 3 s without TF32, 2 s with it, a hundredth of that if the model is small."""

    now, scale = 0.0, 0.01

    def perf_counter(self):
        return self.now


def eager():
    clock.now += clock.scale * (3 if torch.get_float32_matmul_precision() == "highest" else 2)
    return small(torch.rand(2, 4))


comparison.time = clock = Clock()
torch.cuda.synchronize = lambda: None
torch.cuda.get_rng_state, torch.cuda.set_rng_state = (lambda: None), (lambda state: None)
small, before_it = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)), torch.get_rng_state()
torch_facts.note_tf32(lambda: comparison.measure_tf32(small, eager))
torch_facts.note_tf32(lambda: "measured twice")
found["measured"] = torch_facts.report_notes()
clock.scale = 0.06
found["few"] = comparison.measure_tf32(small, eager)
clock.scale = 1.0
found["slow"] = comparison.measure_tf32(small, eager)
found["raises"] = comparison.measure_tf32(small, lambda: 1 / 0)
found["trace"] = [
    torch.get_float32_matmul_precision(),
    torch.equal(before_it, torch.get_rng_state()),
    int(small[1].num_batches_tracked),
    [parameter.grad for parameter in small.parameters()],
]
torch.cuda.is_available = lambda: True
torch_facts.use_tf32()
found["on"] = torch_facts.report_notes()

seen = module_selection.Watch(lambda fault: None, lambda module: None)
seen.begin()
with torch.autocast("cuda", torch.bfloat16, enabled=True):
    torch.nn.Linear(1, 1)(torch.ones(1, 1))
seen.end()
found["seen"] = seen.autocast
(Path(os.environ["RESULTS"]) / "0.json").write_text(json.dumps(found))
