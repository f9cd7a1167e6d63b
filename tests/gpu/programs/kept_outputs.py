"""Trains small models whose scripts keep what the model gave them, eager or compiled as the environment asks.

usage: [DLC_COMPILER=inductor DLC_COMPILER_MODE=cuda-graphs] python kept_outputs.py [DEVICE]

A CUDA graph writes its outputs to the same memory at each replay: what a script keeps of an earlier step must not
change. Prints one line of JSON: for each way of keeping, the numbers that it ended with, and how often a CUDA graph was
replayed. DEVICE is cuda or cpu.
"""

import json
import sys

import torch

import dlc_runtime.compiler.import_hook  # before torch; in an image its .pth line has done it

STEPS, BATCH, WIDTH, CLASSES = 12, 32, 64, 16
LARGE_BATCH = 32768  # 2 MB of logits
DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cuda"
torch.backends.cuda.matmul.allow_tf32 = False


class Replays:
    """Counts the replays of CUDA graphs."""

    def __init__(self):
        self.count = 0
        self._replay = torch.cuda.CUDAGraph.replay
        torch.cuda.CUDAGraph.replay = self.counted

    @property
    def counted(self):
        def replay(graph):
            self.count += 1
            return self._replay(graph)

        return replay


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(WIDTH, 128)
        self.last = torch.nn.Linear(128, CLASSES)

    def forward(self, values):
        return self.last(torch.nn.functional.gelu(self.first(values)))


class KeepingNet(Net):
    """Keeps parts of each forward itself."""

    def __init__(self):
        super().__init__()
        self.sums = []

    def forward(self, values):
        self.hidden = self.first(values)
        self.sums.append(self.hidden.sum(1))
        return self.last(torch.nn.functional.gelu(self.hidden))


class Training:
    """A model with its optimizer, the same numbers in each one."""

    def __init__(self, batch=BATCH, kind=Net):
        torch.manual_seed(0)
        self.model = kind().to(DEVICE)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.batches = [torch.randn(batch, WIDTH).to(DEVICE) for _ in range(STEPS)]
        self.classes = torch.randint(CLASSES, (batch,)).to(DEVICE)

    def loss(self, logits):
        return torch.nn.functional.cross_entropy(logits, self.classes)

    def step(self, loss, set_to_none=True):
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=set_to_none)

    def ended(self, *kept):
        """The numbers that a case ended with: what it kept, and its weights."""
        weights = [parameter.detach().abs().sum() for parameter in self.model.parameters()]
        return [float(value) for value in [*kept, *weights]]


def sum_of_losses():
    training, total = Training(), 0.0
    for batch in training.batches:
        loss = training.loss(training.model(batch))
        training.step(loss)
        total = total + loss.detach()
    return training.ended(total)


def losses_in_a_list():
    training, losses = Training(), []
    for batch in training.batches:
        loss = training.loss(training.model(batch))
        training.step(loss)
        losses.append(loss.detach())
    return training.ended(*losses)


def logits_in_a_list(batch_size=BATCH):
    training, logits = Training(batch_size), []
    for batch in training.batches:
        found = training.model(batch)
        training.step(training.loss(found))
        logits.append(found.detach())
    return training.ended(*(each.square().mean() for each in logits))


def large_logits_in_a_list():
    return logits_in_a_list(LARGE_BATCH)


def accumulated_gradients():
    training = Training()
    for number, batch in enumerate(training.batches):
        (training.loss(training.model(batch)) / 2).backward()
        if number % 2:
            training.optimizer.step()
            training.optimizer.zero_grad(set_to_none=False)
    return training.ended()


def gradients_set_to_zero_in_place():
    training = Training()
    for batch in training.batches:
        training.step(training.loss(training.model(batch)), set_to_none=False)
    return training.ended()


def gradients_read_after_another_forward():
    training, kept = Training(), []
    for batch in training.batches:
        training.optimizer.zero_grad()
        training.loss(training.model(batch)).backward()
        training.optimizer.step()
        training.model(batch)
        kept.append(sum(parameter.grad.sum() for parameter in training.model.parameters()))
    return training.ended(*kept)


def gradients_in_a_list():
    """As parts of each, of a script that sets them to None."""
    training, kept = Training(), []
    for batch in training.batches:
        training.loss(training.model(batch)).backward()
        kept += [parameter.grad.view(-1) for parameter in training.model.parameters()]
        training.optimizer.step()
        training.optimizer.zero_grad()
    return training.ended(*(each.square().sum() for each in kept))


def gradients_by_a_function():
    training, kept = Training(), []
    for batch in training.batches:
        loss = training.loss(training.model(batch))
        kept += torch.autograd.grad(loss, list(training.model.parameters()), retain_graph=True)
        training.step(loss)
    return training.ended(*(each.square().sum() for each in kept))


def gradients_of_the_input():
    training, kept = Training(), []
    for batch in training.batches:
        training.step(training.loss(training.model(batch.requires_grad_())))
        kept.append(batch.grad)
    return training.ended(*(each.square().sum() for each in kept))


def attributes():
    training, kept = Training(kind=KeepingNet), []
    for batch in training.batches:
        training.step(training.loss(training.model(batch)))
        kept.append(training.model.hidden)
    return training.ended(*(each.sum() for each in kept + training.model.sums))


def hooks():
    """One from the start, one that comes later, one of the backward."""
    training, kept = Training(), []

    def keep(_module, inputs, output):
        kept.extend((inputs[0].detach(), output.detach()))

    training.model.first.register_forward_hook(keep)
    training.model.last.register_full_backward_hook(lambda _module, inputs, outputs: kept.extend((*inputs, *outputs)))
    for number, batch in enumerate(training.batches):
        if number == STEPS // 2:
            training.model.last.register_forward_hook(keep)
        training.step(training.loss(training.model(batch)))
    return training.ended(*(each.sum() for each in kept))


def hook_of_a_parameter():
    """It sees gradients before they can be copied: from here on nothing is replayed."""
    training, kept = Training(), []
    training.model.last.weight.register_hook(kept.append)
    for batch in training.batches:
        training.step(training.loss(training.model(batch)))
    return training.ended(*(each.sum() for each in kept))


def mean_of_the_weights():
    training = Training()
    kept = [parameter.detach().clone() for parameter in training.model.parameters()]
    for batch in training.batches:
        training.step(training.loss(training.model(batch)))
        for mean, parameter in zip(kept, training.model.parameters()):
            mean.lerp_(parameter.detach(), 0.1)
    return training.ended(*(mean.abs().sum() for mean in kept))


def second_forward():
    training = Training()
    for batch in training.batches:
        one, two = training.model(batch), training.model(-batch)
        training.step(training.loss(one) + (one - two).square().mean())
    return training.ended()


def steps_of_another_model_between():
    """As in a GAN: it steps while outputs of the first one wait for their backward."""
    training, other = Training(), Training()
    for batch in training.batches:
        made = training.model(batch).repeat(1, WIDTH // CLASSES)
        other.step(other.loss(other.model(made.detach())))
        training.step(other.loss(other.model(made)))
    return training.ended() + other.ended()


def evaluation_between():
    training, kept = Training(), []
    for batch in training.batches:
        training.step(training.loss(training.model(batch)))
        training.model.eval()
        with torch.no_grad():
            kept.append(training.model(batch[:8]))
        training.model.train()
    return training.ended(*(each.square().mean() for each in kept))


def generated():
    """Each output is the next input, and all are kept."""
    training, kept = Training(), []
    for batch in training.batches:
        training.step(training.loss(training.model(batch)))
        training.model.eval()
        with torch.no_grad():
            values = batch[:1]
            for _ in range(4):
                values = training.model(values).repeat(1, WIDTH // CLASSES)
                kept.append(values)
        training.model.train()
    return training.ended(*(each.square().mean() for each in kept))


CASES = (
    sum_of_losses, losses_in_a_list, logits_in_a_list, large_logits_in_a_list, accumulated_gradients,
    gradients_set_to_zero_in_place, gradients_read_after_another_forward,
    mean_of_the_weights, second_forward, steps_of_another_model_between, evaluation_between, generated,
    gradients_in_a_list, gradients_by_a_function, gradients_of_the_input, attributes, hooks,
    hook_of_a_parameter,  # the last one
)  # fmt: skip

if __name__ == "__main__":
    replays = Replays()
    found = {case.__name__: case() for case in CASES}
    compiler = dlc_runtime.compiler.import_hook.requested_compiler()
    print(json.dumps({"compiler": compiler, "replays": replays.count, "cases": found}))
