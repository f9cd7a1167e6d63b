"""The model is a class of torch.nn itself, with buffers that its forward changes."""

from small_training import data, finish, train
from torch import nn

model = nn.Sequential(nn.Linear(8, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
finish(train(model, data(10)), model)
