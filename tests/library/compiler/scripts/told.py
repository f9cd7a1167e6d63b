"""Trains, and has the compiler tell of its progress far more often than a job does."""

from small_training import Net, data, finish, train

from dlc_runtime.compiler.pytorch import progress

progress.SECONDS_UNTIL_WRITTEN = progress.SECONDS_BETWEEN = 0.1
model = Net(width=48)
finish(train(model, data(7)), model)
