"""A plain training loop."""

from small_training import Net, data, finish, train

model = Net()
finish(train(model, data(12)), model)
