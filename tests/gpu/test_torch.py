"""PyTorch computes on every GPU what it should: products, training steps, mixed precision; and returns its memory."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

SIZE = 1024
LEARNING_RATE = 0.1


@pytest.fixture
def device(torch: ModuleType) -> Any:
    """The first GPU; test_torch_distributed.py computes on all."""
    torch.manual_seed(0)
    return torch.device("cuda", 0)


@pytest.mark.parametrize("precision", ["float64", "float32", "float16", "bfloat16"])
def test_a_matrix_product_is_that_of_float64(torch: ModuleType, device: Any, precision: str) -> None:
    """Within the rounding of the sums, which are single precision below that, and of the result itself."""
    if precision == "bfloat16" and torch.cuda.get_device_capability(device) < (8, 0):
        pytest.skip("bfloat16 begins with compute capability 8.0 (Ampere)")
    kind = getattr(torch, precision)
    left, right = torch.randn(2, SIZE, SIZE, dtype=torch.float64).to(device, kind)
    exact = left.double() @ right.double()
    error = ((left @ right).double() - exact).abs().max()
    sums = torch.finfo(torch.float64 if precision == "float64" else torch.float32).eps * 4 * SIZE
    assert float(error) <= sums + 4 * torch.finfo(kind).eps * float(exact.abs().max())


def network(torch: ModuleType) -> Any:
    """A small image classifier; equal parameters on every call. Its convolution is cuDNN's."""
    torch.manual_seed(1)
    layers = torch.nn
    return layers.Sequential(layers.Conv2d(3, 8, 3), layers.ReLU(), layers.Flatten(), layers.Linear(8 * 6 * 6, 10))


def batch(torch: ModuleType) -> tuple[Any, Any]:
    """32 images of 8 x 8 and their classes; the same on every call."""
    torch.manual_seed(2)
    return torch.randn(32, 3, 8, 8), torch.randint(0, 10, (32,))


def train_once(torch: ModuleType, device: Any) -> tuple[float, list[Any]]:
    """Loss and parameters, on the CPU, of one step of gradient descent on a device."""
    model = network(torch).to(device)
    images, classes = (part.to(device) for part in batch(torch))
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    loss = torch.nn.functional.cross_entropy(model(images), classes)
    loss.backward()
    optimizer.step()
    return float(loss.detach()), [parameter.detach().cpu() for parameter in model.parameters()]


def test_a_training_step_is_that_of_the_cpu(torch: ModuleType, device: Any) -> None:
    loss, parameters = train_once(torch, device)
    expected_loss, expected = train_once(torch, torch.device("cpu"))
    assert loss == pytest.approx(expected_loss, abs=1e-5)
    for found, wanted in zip(parameters, expected):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def gradient_scaler(torch: ModuleType) -> Any:
    """Keeps small gradients above the smallest half-precision number; has stood in torch.amp since PyTorch 2.3."""
    in_amp = hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler")
    return torch.amp.GradScaler() if in_amp else torch.cuda.amp.GradScaler()


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_mixed_precision_trains_with_parameters_in_single_precision(
    torch: ModuleType, device: Any, precision: str
) -> None:
    if precision == "bfloat16" and torch.cuda.get_device_capability(device) < (8, 0):
        pytest.skip("bfloat16 begins with compute capability 8.0 (Ampere)")
    model = network(torch).to(device)
    images, classes = (part.to(device) for part in batch(torch))
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    scaler = gradient_scaler(torch)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=getattr(torch, precision)):
            scores = model(images)
            loss = torch.nn.functional.cross_entropy(scores, classes)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(float(loss.detach()))
    assert scores.dtype == getattr(torch, precision)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert losses[0] == pytest.approx(train_once(torch, device)[0], abs=0.05)
    assert losses[-1] < losses[0]


def test_training_takes_no_more_memory_from_step_to_step(torch: ModuleType, device: Any) -> None:
    model = network(torch).to(device)
    images, classes = (part.to(device) for part in batch(torch))
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
    taken = []
    for _ in range(12):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), classes).backward()
        optimizer.step()
        taken.append(torch.cuda.memory_allocated(device))
    assert len(set(taken[2:])) == 1, taken


def test_memory_is_returned(torch: ModuleType, device: Any) -> None:
    """To PyTorch's own pool when the tensor is gone, and to the GPU when the pool is emptied."""
    torch.cuda.empty_cache()
    allocated, reserved = torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)
    block = torch.empty(256 << 20, dtype=torch.uint8, device=device)
    assert torch.cuda.memory_allocated(device) >= allocated + block.numel()
    del block
    assert torch.cuda.memory_allocated(device) == allocated
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved(device) == reserved
