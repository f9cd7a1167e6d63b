"""Batches on the training's device, ahead of the loop. torch lazily."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from dlc_runtime.dataservice.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Optional

    Item = tuple[int, Any]
    Take = Callable[[], Optional[Item]]

# Batches on the device.
AHEAD = 2


class DeviceMover:
    """`device` None: batches stay as they came. Raises SettingError for a device that is not here."""

    def __init__(self, device: Any) -> None:
        self.device = None if device is None else check_device(device)
        self.is_cuda = self.device is not None and self.device.type == "cuda"
        self._stream: Any = None

    def batches(self, take: Take, take_ready: Take) -> Iterator[Item]:
        """Yield what `take` gives until that is None. `take_ready` never waits."""
        if self.is_cuda:
            for id_, (batch, event) in stage(take, take_ready, self._begin_copy):
                yield id_, self._hand_over(batch, event)
            return
        while (taken := take()) is not None:
            id_, batch = taken
            yield id_, batch if self.device is None else move(batch, self.device)

    def _begin_copy(self, batch: Any) -> Any:
        import torch

        if self._stream is None:
            self._stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(self._stream):
            batch = move(batch, self.device)
            return batch, self._stream.record_event()

    def _hand_over(self, batch: Any, event: Any) -> Any:
        """Let the loop's stream wait for the copy; tell torch's allocator."""
        import torch

        current = torch.cuda.current_stream(self.device)
        current.wait_event(event)
        for tensor in find_tensors(batch):
            tensor.record_stream(current)
        return batch


def stage(take: Take, take_ready: Take, begin: Callable[[Any], Any]) -> Iterator[Item]:
    """Yield the items in order, `begin` done for up to AHEAD, without needless wait."""
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


def check_device(device: Any) -> Any:
    """Return the torch.device. Raises SettingError."""
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


def move(node: Any, device: Any) -> Any:
    """Return the structure with each tensor on the device."""
    import torch

    if isinstance(node, (torch.Tensor, torch.nn.utils.rnn.PackedSequence)):
        return node.to(device, non_blocking=True)
    if isinstance(node, tuple):
        items = [move(item, device) for item in node]
        return type(node)(*items) if hasattr(node, "_fields") else tuple(items)
    if isinstance(node, list):
        return [move(item, device) for item in node]
    if isinstance(node, dict):
        return {key: move(item, device) for key, item in node.items()}
    return node


def find_tensors(node: Any) -> Iterator[Any]:
    import torch

    if isinstance(node, torch.Tensor):
        yield node
    elif isinstance(node, (tuple, list, dict)):
        for item in node.values() if isinstance(node, dict) else node:
            yield from find_tensors(item)
