"""What looks like a mistake and is none: each of these was a false finding, or would be one."""

from __future__ import annotations

import pytest

from dlc_lint import lint

LOADER = """\
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler
from torchvision import datasets
"""
SILENT_PYTORCH = {
    "a loader whose batches are only shown": """\
train_loader = DataLoader(dataset=datasets.CIFAR10("data"), batch_size=64, shuffle=True)
images, labels = next(iter(train_loader))
for images, labels in train_loader:
    pass
""",
    "a loader whose name is used again": """\
train_loader = DataLoader(dataset=datasets.CIFAR10("data"), batch_size=64, shuffle=True)
for images, labels in train_loader:
    pass
train_loader = DataLoader(dataset=datasets.CIFAR10("data"), batch_size=64, shuffle=True)
""",
    "a loader whose batches are only collected": """\
loader = DataLoader(dataset=datasets.ImageFolder("data"), batch_size=64, shuffle=True)
for images, labels in loader:
    found.extend(images.numpy())
for x in found:
    model(x).backward()
""",
    "a loader without gradients": """\
@torch.no_grad()
def features():
    loader = DataLoader(dataset=datasets.ImageFolder("data"), batch_size=64, shuffle=True)
    for images, labels in loader:
        found.append(model(images))
""",
    "a loader of which one batch is taken": """\
train_loader = DataLoader(dataset=datasets.ImageFolder("data"), batch_size=64, shuffle=True)
for images, labels in train_loader:
    show(images)
    break
""",
    "a module without weights, and one without gradients": """\
import numpy as np
import torch
from torch import nn


class Window(nn.Module):
    def __init__(self):
        super().__init__()
        self.window = torch.hann_window(8)

    def forward(self, x):
        return x * np.random.rand()


class Inverse(nn.Module):
    def __init__(self):
        super().__init__()
        self.window = Window()

    def forward(self, x):
        return self.window(x) * np.random.rand()


class Signal(nn.Module):
    def __init__(self):
        super().__init__()
        self.transform = make_transform()

    def forward(self, x):
        return self.transform(x) * np.random.rand()


class Search(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    @torch.no_grad()
    def forward(self, x):
        return self.layer(x)[torch.nonzero(x)]
""",
    "a function with a second derivative that nothing calls": """\
import torch


def penalty(critic, x):
    return torch.autograd.grad(critic(x).sum(), x, create_graph=True)


for x in batches:
    model(x)
""",
    "a hook that is removed": """\
handle = model.register_forward_hook(lambda module, inputs, output: seen.append(output))
model(x)
handle.remove()
""",
    "a Trainer that only evaluates, on XLA": """\
import torch_xla
from transformers import Trainer, TrainingArguments

trainer = Trainer(model=model, args=TrainingArguments("out"), eval_dataset=rows)
print(torch_xla.__version__, trainer.evaluate())
""",
    "what a step does now and then, behind a continue": """\
for step, x in enumerate(bar):
    loss = model(x)
    loss.backward()
    optimizer.step()
    if step % 50:
        continue
    bar.set_postfix(loss=loss.item())
""",
    "a number of the loss for the bar": """\
for x in bar:
    loss = model(x)
    loss.backward()
    optimizer.step()
    running = 0.9 * running + 0.1
    bar.set_postfix(loss=running, best=meters.loss)
""",
    "losses of one step, for one backward": """\
for batch in batches:
    losses = []
    for part in batch:
        loss = model(part)
        losses.append(loss)
    loss = sum(losses)
    loss.backward()
""",
    "a sum of losses, for one backward": """\
total = 0.0
for part in parts:
    loss = model(part)
    total += loss
total.backward()
""",
    "losses of a window, for one backward": """\
total = 0.0
for step, part in enumerate(parts):
    loss = model(part)
    loss.backward()
    total += loss
    if step % 4 == 3:
        total.backward()
        total = 0.0
""",
    "batches that the script pins itself": """\
train_loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=2, drop_last=True)
for x, y in train_loader:
    x = x.pin_memory().cuda(non_blocking=True)
    model(x).backward()
""",
    "a device that may be the processor": """\
train_loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=2, drop_last=True)
for x, y in train_loader:
    model(x.to(device)).backward()
""",
}
SILENT_XLA = {
    "a barrier for each part of a batch": """\
import torch_xla

for part in parts:
    loss = model(part)
    loss.backward()
    torch_xla.sync()
    if part.is_last:
        optimizer.step()
""",
    "a save for each device": """\
import torch
import torch_xla
import torch_xla.core.xla_model as xm

device = xm.xla_device()
if on_xla:
    xm.save(model.state_dict(), "model.pt")
else:
    torch.save(model.state_dict(), "model.pt")
""",
    "a sampler that draws for ever": """\
sampler = RandomSampler(data, replacement=True, num_samples=int(1e10))
train_loader = DataLoader(data, sampler=sampler, batch_size=64, num_workers=4)
""",
    "a sampler of one's own": """\
from samplers import InfiniteSampler

train_loader = DataLoader(data, sampler=InfiniteSampler(data), batch_size=64, num_workers=4)
""",
    "a batch size that divides the examples": """\
train_loader = DataLoader(datasets.MNIST("data", train=True), batch_size=32, shuffle=True, num_workers=2)
""",
    "texts whose lengths are only compared": """\
class Pipeline:
    def encode(self, prompt):
        return self.tokenizer(prompt, padding="longest", return_tensors="pt").input_ids
""",
    "texts that are padded all at once": """\
def tokenize(batch):
    return tokenizer(batch["text"], padding=True, truncation=True)


data = data.map(tokenize, batched=True, batch_size=len(data))
""",
    "texts that are read one by one": """\
def tokenize(texts):
    return [tokenizer(text, padding="longest") for text in texts]
""",
}
FOUND_PYTORCH = {
    "a batch size that leaves a rest": (
        """\
train_loader = DataLoader(datasets.MNIST("data", train=True), batch_size=64, shuffle=True, num_workers=2)
""",
        "DLC102",
    ),
    "a sampler that shares out the examples": (
        """\
sampler = DistributedSampler(data) if distributed else None
train_loader = DataLoader(data, sampler=sampler, batch_size=64, num_workers=4)
""",
        "DLC102",
    ),
    "a loader of which batches are taken in a loop": (
        """\
train_loader = DataLoader(datasets.ImageFolder("data"), batch_size=64, shuffle=True, drop_last=True)
batches = iter(train_loader)
for step in range(1000):
    train(next(batches))
""",
        "DLC141",
    ),
    "a loader that a function gets": (
        """\
def train(batches):
    for x, y in batches:
        model(x.cuda(non_blocking=True)).backward()


train(DataLoader(data, batch_size=32, num_workers=2, drop_last=True))
""",
        "DLC142",
    ),
    "a second derivative that main calls": (
        """\
import torch


class Trainer:
    def penalty(self, x):
        return torch.autograd.grad(self.critic(x).sum(), x, create_graph=True)

    def run(self):
        return self.penalty(1)


def main():
    Trainer().run()


main()
""",
        "DLC133",
    ),
}
TENSORFLOW = """\
import tensorflow as tf

data = tf.data.Dataset.range(1000)
model.compile(loss="mse", jit_compile=True)
"""
SILENT_TENSORFLOW = {
    "fewer steps than batches": "train = data.batch(32)\nmodel.fit(train, steps_per_epoch=10)\n",
    "a batch size that divides what is taken": "ds = data.take(200).batch(50)\nmodel.fit(ds)\n",
    "a batch size that divides the examples": """\
(x, y), _ = tf.keras.datasets.mnist.load_data()
train = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(60000).batch(600)
""",
    "validation_data": "rest = data.batch(32)\nmodel.fit(train, validation_data=rest)\n",
    "a name that ends with val": "ds_val = data.batch(32)\nmodel.fit(ds_val)\n",
    "a loop that only looks": "rest = data.batch(32)\nfor x in rest:\n    print(model(x))\n",
    "a loop that evaluates": """\
@tf.function(jit_compile=True)
def step(x):
    metric.update_state(model(x))


rest = data.batch(32)
for x in rest:
    step(x)
""",
    "a function whose result is for validation": """\
def make(count):
    return tf.data.Dataset.range(count).batch(32)


model.fit(train, validation_data=make(10))
""",
    "a loop for looking at each operation": """\
if mode == "eager":
    for x in data:
        with tf.GradientTape() as tape:
            loss = model(x)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
""",
    "a function that calls itself": """\
def make():
    rest = make()
    rest = rest.batch(32)
    return rest
""",
    "two functions that call each other": """\
def one():
    rest = two().batch(32)
    return rest


def two():
    rest = tf.data.Dataset.range(8).batch(32)
    rest = one() if rest else rest
    return rest
""",
    "eager below a choice": "if debug:\n    tf.config.run_functions_eagerly(True)\n",
    "eager for some lines": "tf.config.run_functions_eagerly(True)\ndo()\ntf.config.run_functions_eagerly(False)\n",
    "a function for each model": "for one in models:\n    step = tf.function(one)\n    step(1)\n",
    "a function for each model and its number": "for i, one in enumerate(models):\n    fast = tf.function(one)\n",
    "predict for each fold": "for x, y in folds:\n    model.fit(x)\n    print(model.predict(y))\n",
}
FOUND_TENSORFLOW = {
    "a batch size that leaves a rest": (
        """\
(x, y), _ = tf.keras.datasets.mnist.load_data()
train = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(60000).batch(64)
""",
        "DLC211",
    ),
    "given to fit": ("rest = data.batch(32)\nmodel.fit(rest, validation_data=other)\n", "DLC211"),
    "a loop that trains": (
        """\
@tf.function(jit_compile=True)
def step(x):
    with tf.GradientTape() as tape:
        loss = model(x)
    optimizer.apply_gradients(tape.gradient(loss, weights))


rest = data.batch(32)
for x in rest:
    step(x)
""",
        "DLC211",
    ),
    "eager in the main function": (
        "def main():\n    tf.config.run_functions_eagerly(True)\n\n\nif __name__ == '__main__':\n    main()\n",
        "DLC202",
    ),
    "a function for each batch": ("for x in data:\n    step = tf.function(model)\n    step(x)\n", "DLC205"),
}


@pytest.mark.parametrize("text", SILENT_PYTORCH.values(), ids=SILENT_PYTORCH)
def test_nothing_is_said_of_what_is_right_in_pytorch(text: str) -> None:
    assert lint(LOADER + text) == []


@pytest.mark.parametrize("text", SILENT_XLA.values(), ids=SILENT_XLA)
def test_nothing_is_said_of_what_is_right_for_xla(text: str) -> None:
    assert lint(LOADER + text, compiler="xla") == []


@pytest.mark.parametrize(("text", "code"), FOUND_PYTORCH.values(), ids=FOUND_PYTORCH)
def test_its_neighbour_is_found_in_pytorch(text: str, code: str) -> None:
    assert [one.code for one in lint(LOADER + text, compiler="xla" if code == "DLC102" else "")] == [code]


@pytest.mark.parametrize("text", SILENT_TENSORFLOW.values(), ids=SILENT_TENSORFLOW)
def test_nothing_is_said_of_what_is_right_in_tensorflow(text: str) -> None:
    assert lint(TENSORFLOW + text) == []


@pytest.mark.parametrize(("text", "code"), FOUND_TENSORFLOW.values(), ids=FOUND_TENSORFLOW)
def test_its_neighbour_is_found_in_tensorflow(text: str, code: str) -> None:
    assert [one.code for one in lint(TENSORFLOW + text)] == [code]
