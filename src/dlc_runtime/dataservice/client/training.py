"""What a training needs of a loader: batches moved to its device ahead, and what frameworks look for. torch lazily."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from typing import TYPE_CHECKING

from dlc_runtime.dataservice.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Item = tuple[int, Any]
    from collections.abc import Sequence
    from typing import Any, Protocol

    class Loader(Protocol):
        """Of RemoteLoader."""

        def __len__(self) -> int: ...

        def __iter__(self) -> Iterator[Any]: ...

        def set_epoch(self, epoch: int) -> None: ...

        def skip(self, batches: int) -> None: ...


AHEAD = 2  # batches on the device that the loop has not had, the next one among them


class Mover:
    """`device` None: batches stay as they came. Raises SettingError for a device that is not here."""

    def __init__(self, device: Any) -> None:
        self.device = None if device is None else checked(device)
        self.is_cuda = self.device is not None and self.device.type == "cuda"
        self._stream: Any = None

    def batches(self, take: Callable[[], Item | None], take_ready: Callable[[], Item | None]) -> Iterator[Item]:
        """What `take` gives until that is None. `take_ready` gives only what is here already, and never waits."""
        if self.is_cuda:
            for id_, (batch, event) in staged(take, take_ready, self._begin_copy):
                yield id_, self._handed_over(batch, event)
            return
        while (taken := take()) is not None:
            id_, batch = taken
            yield id_, batch if self.device is None else moved(batch, self.device)

    def _begin_copy(self, batch: Any) -> Any:
        import torch

        if self._stream is None:
            self._stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(self._stream):
            batch = moved(batch, self.device)
            return batch, self._stream.record_event()

    def _handed_over(self, batch: Any, event: Any) -> Any:
        """The loop's stream waits for the copy, and its use of the memory counts for torch's allocator."""
        import torch

        current = torch.cuda.current_stream(self.device)
        current.wait_event(event)
        for tensor in tensors(batch):
            tensor.record_stream(current)
        return batch


def staged(
    take: Callable[[], Item | None], take_ready: Callable[[], Item | None], begin: Callable[[Any], Any]
) -> Iterator[Item]:
    """The items in order, with `begin` done for up to AHEAD of them; never waits for one while another is there."""
    begun: deque[Item] = deque()
    while True:
        if not begun:
            first = take()
            if first is None:
                return
            begun.append((first[0], begin(first[1])))
        while len(begun) < AHEAD:
            more = take_ready()
            if more is None:
                break
            begun.append((more[0], begin(more[1])))
        yield begun.popleft()


def checked(device: Any) -> Any:
    """The torch.device. Raises SettingError."""
    import torch

    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise SettingError(f"RemoteLoader: device: expected a device of torch, found {device!r} ({error})") from None
    if found.type == "cuda" and not (found.index or 0) < torch.cuda.device_count():
        raise SettingError(
            f"RemoteLoader: device: {device!r} is not on this host, torch sees {torch.cuda.device_count()} CUDA"
            " devices; leave device= out where the loop moves the batches itself"
        )
    return found


def moved(node: Any, device: Any) -> Any:
    """The same structure with each tensor on the device; everything else as it was."""
    import torch

    if isinstance(node, torch.Tensor):
        return node.to(device, non_blocking=True)
    if isinstance(node, torch.nn.utils.rnn.PackedSequence):
        return node.to(device, non_blocking=True)  # its batch sizes stay on the CPU
    if isinstance(node, tuple):
        items = [moved(item, device) for item in node]
        return type(node)(*items) if hasattr(node, "_fields") else tuple(items)
    if isinstance(node, list):
        return [moved(item, device) for item in node]
    if isinstance(node, dict):
        return {key: moved(item, device) for key, item in node.items()}
    return node


def tensors(node: Any) -> Iterator[Any]:
    import torch

    if isinstance(node, torch.Tensor):
        yield node
    elif isinstance(node, (tuple, list, dict)):
        for item in node.values() if isinstance(node, dict) else node:
            yield from tensors(item)


class RemoteDataset:
    """What is known here of the dataset on the data hosts: its length, and by `__getitems__` this rank's batches."""

    def __init__(self, samples: int, loader: Loader) -> None:
        self._samples, self._loader = samples, loader
        self._batches: Iterator[Any] = iter(())
        self._next = -1  # the number of the batch that `_batches` gives next

    def __len__(self) -> int:
        return self._samples

    def __getitems__(self, numbers: Sequence[int]) -> Any:
        """The batch with this rank's number in the epoch; only in order, from any one on."""
        (number,) = numbers
        if number != self._next:
            self._loader.skip(number)
            self._batches = iter(self._loader)
        self._next = number + 1
        return next(self._batches)


class BatchNumbers:
    """Stands where sampler and batch sampler stood: the numbers of this rank's batches in an epoch, each in a list."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[list[int]]:
        return ([number] for number in range(len(self._loader)))

    def set_epoch(self, epoch: int) -> None:
        self._loader.set_epoch(epoch)

    @property
    def sampler(self) -> BatchNumbers:
        return self


def as_it_is(batch: Any) -> Any:
    """The collate function of batches that are made."""
    return batch


@contextlib.contextmanager
def iteration() -> Iterator[Any]:
    """An object whose `end_of_dataloader` is to be True while the loop has the last batch; None without Accelerate."""
    mixin = getattr(sys.modules.get("accelerate.data_loader"), "DataLoaderStateMixin", None)
    if mixin is None:
        yield None
        return
    state = _state(mixin)
    state.begin()
    try:
        yield state
    finally:
        state.end()


def _state(mixin: Any) -> Any:
    state = sys.modules["accelerate.state"]  # the mixin's module imports it

    class State(mixin):  # type: ignore[misc]
        """Accelerate's own part of a loader."""

        def __init__(self) -> None:
            self.gradient_state = state.GradientState()

    return State()
