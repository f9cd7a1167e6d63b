"""Memory for received batches, used again when the last tensor over it is gone.

Fresh memory costs a page fault for every 4 KiB, which halves the speed of large batches. A buffer goes back when
nothing refers to it any more: tensors, views and slices of them all keep its lease alive, so none changes under the
user.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

PAGE_BYTES = 4096
# From here on huge pages are worth asking for.
HUGE_BYTES = 4 << 20


class Buffer:
    """Memory of at least the size asked for; `owner` is what exports it."""

    is_pinned = False

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.memory = memoryview(owner)
        self._flat: Any = None

    @property
    def flat(self) -> Any:
        """Return all of it as a tensor of uint8, which keeps the memory."""
        if self._flat is None:
            import torch

            self._flat = torch.frombuffer(self.owner, dtype=torch.uint8)
        return self._flat


class PinnedBuffer(Buffer):
    """Page-locked memory of torch's own pool, which waits for copies to the device that are still under way."""

    is_pinned = True

    def __init__(self, size: int) -> None:
        import torch

        flat = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        super().__init__(flat.numpy())
        self._flat = flat


class BufferPool:
    """Buffers by size. Keeps at most `most` bytes that nobody uses."""

    def __init__(self, most: int, pinned: bool = False) -> None:
        self.most, self.pinned = most, pinned
        self._free: dict[int, deque[mmap.mmap]] = {}
        self._leases: dict[int, Any] = {}

    def take(self, size: int) -> Buffer:
        if self.pinned:
            return PinnedBuffer(max(size, 1))
        size = round_up(size)
        free = self._free.get(size)
        if free is None:
            free = self._free[size] = deque()
            self._leases[size] = _make_lease_class(self, size)
        try:
            block = free.pop()
        except IndexError:
            block = _allocate(size)
        return Buffer(self._leases[size].over(block))

    def give_back(self, size: int, block: mmap.mmap) -> None:
        """Keep a block. Called by any thread that drops the last tensor, also within this class: so without a lock."""
        free = self._free[size]
        unused = size * len(free) if len(self._free) == 1 else self.unused
        if unused + size <= self.most:
            free.append(block)

    def clear(self) -> None:
        """Free the blocks that nobody uses. The pool, a cycle, would keep them until the collector comes."""
        for blocks in [*self._free.values()]:
            blocks.clear()

    @property
    def unused(self) -> int:
        return sum(size * len(blocks) for size, blocks in [*self._free.items()])


@functools.lru_cache(maxsize=256)
def round_up(size: int) -> int:
    """Return a size with few neighbours, at most an eighth larger: batches of nearly one size share buffers."""
    step = max(PAGE_BYTES, 1 << max(0, size.bit_length() - 4))
    return max(PAGE_BYTES, -(-size // step) * step)


def _allocate(size: int) -> mmap.mmap:
    block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= HUGE_BYTES:
        with contextlib.suppress(OSError, AttributeError):
            block.madvise(mmap.MADV_HUGEPAGE)
    return block


def _make_lease_class(pool: BufferPool, size: int) -> Any:
    """Make the class that tensors refer to: when the last one lets go, the block returns to the pool."""

    class Lease(ctypes.c_ubyte * size):  # type: ignore[misc]
        @classmethod
        def over(cls, block: mmap.mmap) -> Any:
            lease = cls.from_buffer(block)
            lease.block = block
            return lease

        def __del__(self) -> None:
            pool.give_back(size, self.block)

    return Lease
