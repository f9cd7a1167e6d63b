"""A model with dropout."""

from small_training import Net, data, finish, train
from torch import nn

model = nn.Sequential(Net(), nn.Dropout(0.5), nn.Linear(2, 2))
finish(train(model, data(9)), model)
