"""Trains; then asks torch for derivatives of the model, and scripts functions that ask for gradients."""

import torch
from small_training import Net, data, finish, train
from torch.autograd import forward_ad, functional


def gradient_of_square(x: torch.Tensor):
    y = (x**2).sum()
    return torch.autograd.grad([y], [x])[0]


def backward_of_square(x: torch.Tensor):
    torch.autograd.backward([(x**2).sum()])


model = Net()
losses = train(model, data(12))
point = torch.linspace(-1, 1, 8)[None]


def value(x):
    return model(x).sum()


derivatives = {
    "hessian": functional.hessian(value, point),
    "vhp": functional.vhp(value, point, point)[1],
    "hvp": functional.hvp(value, point, point)[1],
    "jacobian": functional.jacobian(value, point),
}
with forward_ad.dual_level():
    derivatives["forward"] = forward_ad.unpack_dual(model(forward_ad.make_dual(point, point))).tangent
needs_gradient = point.clone().requires_grad_()
derivatives["scripted"] = torch.jit.script(gradient_of_square)(needs_gradient)
torch.jit.script(backward_of_square)(needs_gradient)
derivatives["scripted backward"] = needs_gradient.grad
losses += train(model, data(3, seed=4))
finish(losses, model, derivatives={name: found.flatten().tolist() for name, found in derivatives.items()})
