"""Counts the processes in which torch loads a trial library of vector instructions."""

import sys

started = []
sys.addaudithook(lambda event, given: event == "subprocess.Popen" and started.append(str(given[1])))

from small_training import Net, data, finish, train  # noqa: E402

model = Net()
losses = train(model, data(10))
finish(losses, model, trials=sum("LoadLibrary" in command for command in started))
