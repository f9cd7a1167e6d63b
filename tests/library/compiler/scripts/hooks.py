"""A hook from the start that appends to a list, and one that is registered while training."""

from small_training import Net, data, finish, train

model = Net()
early, late = [], []
model.body[1].register_forward_hook(lambda module, inputs, output: early.append(float(output.detach().sum())))


def before_step(index):
    if index == 9:
        model.head.register_forward_pre_hook(lambda module, inputs: late.append(1))


losses = train(model, data(12), before_step=before_step)
finish(losses, model, early=early, late=len(late))
