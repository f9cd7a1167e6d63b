"""A plain training loop."""

from common import Net, data, finish, train

model = Net()
finish(train(model, data(12)), model)
