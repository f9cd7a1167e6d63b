"""Runs loops, each in a forked process, and writes what the launcher reads of them: `FOLDER < cases.json`."""

import json
import os
import sys
import traceback
from pathlib import Path

import dlc_runtime.steps.import_hook  # noqa: F401 - before torch, as a line in the images does

import torch  # isort: skip

from launch.supervision.progress import read_first


def run(folder, code, names):
    """The fields of the first rank after these lines."""
    os.environ["DLC_STEPS_DIR"] = folder
    model = torch.nn.Linear(3, 2)

    def loss():
        return model(torch.ones(4, 3)).sum()

    def train(optimizer, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()

    def sgd():
        return torch.optim.SGD(model.parameters(), lr=0.1)

    exec(code, {**globals(), **locals()})
    found = read_first(folder)
    return [getattr(found, name) for name in names]


for number, (code, names) in enumerate(json.load(sys.stdin)):
    if not os.fork():
        folder = Path(sys.argv[1], str(number))
        folder.mkdir()
        try:
            result = run(str(folder), code, names)
        except BaseException:
            result = traceback.format_exc()
        (folder / "result").write_text(json.dumps(result))
        os._exit(0)
    os.wait()
