"""Saves and ends when it is told to stop, wherever it is."""

import signal
import sys

from small_training import Net, data, finish, train


def stop(number, frame):
    finish([0.0], model)
    print("saved, says the script", flush=True)
    sys.exit(3)


model = Net(width=40)  # of its own, so that no cache has it
signal.signal(signal.SIGTERM, stop)
train(model, data(6))
print("never stopped", flush=True)
