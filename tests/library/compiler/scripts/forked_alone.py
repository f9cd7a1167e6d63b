"""Trains in a process that it forks, and nowhere else."""

import multiprocessing

from small_training import Net, data, finish, train


def work():
    model = Net()
    finish(train(model, data(8)), model)


if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join()
