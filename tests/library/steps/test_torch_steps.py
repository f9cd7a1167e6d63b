"""What PyTorch's loops and the Trainer count as a step, an epoch and a whole training."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

SOURCES, SCRIPTS = Path(__file__).parents[3] / "src", Path(__file__).parent / "scripts"
GAN = """
generator, critic = sgd(), sgd()
for _ in range(4):
    train(critic, 5)
    train(generator, 1)
"""
LBFGS = """
optimizer = torch.optim.LBFGS(model.parameters())
def closure():
    optimizer.zero_grad()
    value = (model(torch.ones(4, 3)) ** 2).sum()
    value.backward()
    return value
for _ in range(2):
    optimizer.step(closure)
"""
SUPER = """
class Twice(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)
train(Twice(model.parameters(), lr=0.1), 3)
"""
RAISES = """
class Raises(torch.optim.SGD):
    def step(self, closure=None):
        raise MemoryError
optimizer = Raises(model.parameters(), lr=0.1)
for _ in range(2):
    try:
        train(optimizer, 1)
    except MemoryError:
        pass
train(sgd(), 3)
"""
COMPILED = """
optimizer = sgd()
step = torch.compile(optimizer.step, backend="eager") if hasattr(torch, "compile") else optimizer.step
for _ in range(4):
    loss().backward()
    step()
"""
BACKWARD = """
optimizers = [torch.optim.SGD([parameter], lr=0.1) for parameter in model.parameters()]
for _ in range(3):
    loss().backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
"""
FORKED = """
train(sgd(), 3)
if not os.fork():
    train(sgd(), 5)
    os._exit(0)
os.wait()
train(sgd(), 1)
"""
EPOCHS = """
from torch.utils.data import DataLoader
training, evaluation = DataLoader(torch.ones(10, 3), batch_size=2, num_workers=WORKERS), DataLoader(torch.ones(7, 3))
optimizer = sgd()
for epoch in range(2):
    for number, batch in enumerate(training):
        if epoch == 1 and number == 3:
            break
        train(optimizer, 1)
        if number == 2:
            list(evaluation)
"""
LENGTH = """
from torch.utils.data import DataLoader, Sampler
class Broken(Sampler):
    def __init__(self): pass
    def __iter__(self): return iter(range(4))
    def __len__(self): raise RuntimeError("no length today")
optimizer = sgd()
for batch in DataLoader(torch.ones(4, 3), sampler=Broken(), batch_size=1):
    train(optimizer, 1)
"""
STEPS, EPOCH = ("steps",), ("steps", "epoch", "epoch_batch", "epoch_batches")
# Name -> lines, fields, what they have to be
CASES: dict[str, tuple[str, tuple[str, ...], list[int]]] = {
    "a loop": ("train(sgd(), 3)", STEPS, [3]),
    "a GAN": (GAN, STEPS, [20]),
    "LBFGS": (LBFGS, STEPS, [2]),
    "super().step()": (SUPER, STEPS, [3]),
    "a step that raises": (RAISES, STEPS, [3]),
    "a compiled step": (COMPILED, STEPS, [4]),
    "an optimizer for each parameter": (BACKWARD, STEPS, [3]),
    "another model": ("train(sgd(), 3)\ntrain(sgd(), 3)", STEPS, [6]),
    "a forked process": (FORKED, STEPS, [4]),
    "a sampler whose length raises": (LENGTH, EPOCH, [4, 1, 4, 0]),
    "an evaluation within an epoch": (EPOCHS.replace("WORKERS", "0"), EPOCH, [8, 2, 3, 5]),
    "the same, with workers": (EPOCHS.replace("WORKERS", "2"), EPOCH, [8, 2, 3, 5]),
}


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What each case counts: all are run at once, because importing torch is what takes their time."""
    folder = tmp_path_factory.mktemp("steps")
    run_python("counted_loops.py", str(folder), given=json.dumps([case[:2] for case in CASES.values()]))
    return {name: json.loads((folder / str(number) / "result").read_text()) for number, name in enumerate(CASES)}


def run_python(*words: str, given: str = "", folder: str = "") -> str:
    """The last line that a script prints."""
    inherited = {name: value for name, value in os.environ.items() if name != "RANK"}
    own = {"DLC_STEPS_DIR": folder, "PYTHONPATH": f"{SOURCES}:{SOURCES / 'entrypoint'}"}
    argv = [sys.executable, str(SCRIPTS / words[0]), *words[1:]]
    done = subprocess.run(argv, env={**inherited, **own}, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "not counted" not in done.stderr
    return (done.stdout.splitlines() or [""])[-1]


@pytest.mark.parametrize("case", CASES)
def test_a_step_is_counted_once_and_an_epoch_is_the_trainings(case: str, counted: dict[str, object]) -> None:
    assert counted[case] == CASES[case][2]


def test_a_trainer_tells_how_many_steps_there_are_and_where_it_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    assert run_python("counted_trainer.py", folder=str(tmp_path)) == "24 24 24 3"
    for path in tmp_path.glob("*.steps"):
        path.unlink()
    assert run_python("counted_trainer.py", "resume", folder=str(tmp_path)) == "10 24 24 3"
