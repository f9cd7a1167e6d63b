"""Trains, then forks a process that trains the same model on and another one."""

import multiprocessing
import os

from small_training import Net, data, finish, train

model = Net()


def work():
    os.environ["RANK"] = "1"  # for finish()
    other = Net(width=24)
    finish(train(model, data(8)) + train(other, data(8)), model, other)


if __name__ == "__main__":
    losses = train(model, data(8))
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join()
    finish(losses, model)
