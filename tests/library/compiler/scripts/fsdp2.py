"""fully_shard on two ranks."""

import torch
from small_training import Net, data, finish, train
from torch.distributed.fsdp import fully_shard

torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,))
model = Net()
fully_shard(model.body, mesh=mesh)
fully_shard(model, mesh=mesh)
losses = train(model, data(10, seed=rank))
whole = {name: value.full_tensor().tolist() for name, value in model.state_dict().items()}
finish(losses, whole=whole)
torch.distributed.destroy_process_group()
