"""What a user of the Kubeflow SDK writes: a job of a runtime, or a function that a runtime trains.

    python kubeflow_client.py again RUNTIME NAME
    python kubeflow_client.py function RUNTIME IMAGE

The last line of stdout is what the SDK has told, as JSON.
"""

import json
import sys

from kubeflow.trainer import CustomTrainer, TrainerClient
from kubeflow.trainer.options import Labels, Name


def start_again(runtime, name):
    """Start the job of a runtime under another name, look after it, remove it; return what was seen."""
    client = TrainerClient()
    found = client.get_runtime(runtime)
    before = [job.name for job in client.list_jobs()]
    started = client.train(runtime=runtime, options=[Name(name), Labels({"org.dlc.job": "digits"})])
    job = client.get_job(started)
    during = sorted(job.name for job in client.list_jobs())
    lines = list(client.get_job_logs(started))
    return {
        "framework": found.trainer.framework,
        "image": found.trainer.image,
        "before": before,
        "during": during,
        "nodes": job.num_nodes,
        "status": job.status,
        "lines": lines,
    }


def add_up(greeting):
    """Add one to a sum over all ranks, by what torchrun has set."""
    import torch
    import torch.distributed

    torch.distributed.init_process_group("gloo")
    total = torch.ones(1)
    torch.distributed.all_reduce(total)
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    print(f"{greeting} of rank {rank} of {size}: {total.item():g}", flush=True)
    torch.distributed.destroy_process_group()


def train_function(runtime, image):
    """Let two nodes train a function in an image; return the job's name."""
    trainer = CustomTrainer(func=add_up, func_args={"greeting": "sum"}, num_nodes=2, image=image)
    return {"name": TrainerClient().train(runtime=runtime, trainer=trainer)}


print(json.dumps({"again": start_again, "function": train_function}[sys.argv[1]](*sys.argv[2:])))
