"""A process per GPU, started by horovodrun: sums and averages of tensors on the GPUs, with PyTorch or TensorFlow.

Rank 0 prints one line of JSON: the number of ranks, NCCL's version, where the result lies, and what was computed.
"""

import json
from importlib.util import find_spec

COUNT = 8  # tensors that are averaged together


def with_torch() -> dict[str, object]:
    import horovod.torch as hvd
    import torch

    hvd.init()
    torch.cuda.set_device(hvd.local_rank())
    summed = hvd.allreduce(torch.full((1 << 20,), float(hvd.rank() + 1), device="cuda"), op=hvd.Sum)
    several = [torch.full((1000,), number * float(hvd.rank() + 1), device="cuda") for number in range(1, COUNT + 1)]
    averages = hvd.grouped_allreduce(several, op=hvd.Average)
    found = {"rank": hvd.rank(), "size": hvd.size(), "nccl": hvd.nccl_built(), "device": str(summed.device)}
    return {**found, "sum": float(summed[-1]), "averages": [float(each[-1]) for each in averages]}


def with_tensorflow() -> dict[str, object]:
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    with tf.device("/GPU:0"):
        summed = hvd.allreduce(tf.fill([1 << 20], float(hvd.rank() + 1)), op=hvd.Sum)
        several = [tf.fill([1000], number * float(hvd.rank() + 1)) for number in range(1, COUNT + 1)]
        averages = hvd.grouped_allreduce(several, op=hvd.Average)
    found = {"rank": hvd.rank(), "size": hvd.size(), "nccl": hvd.nccl_built(), "device": summed.device}
    return {**found, "sum": float(summed[-1]), "averages": [float(each[-1]) for each in averages]}


found = with_torch() if find_spec("torch") else with_tensorflow()
if found["rank"] == 0:
    print(json.dumps(found))
