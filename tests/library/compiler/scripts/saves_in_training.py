"""Trains until it is told to stop; then it saves and ends."""

import signal
import sys

from small_training import Net, data, finish, train


def stop(number, frame):
    print("saved, says the script", flush=True)
    sys.exit(3)


def say(index):
    if index == 8:
        print("ready", flush=True)


model = Net()
signal.signal(signal.SIGTERM, stop)
train(model, data(200_000), before_step=say)
finish([], model)
