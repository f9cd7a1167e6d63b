"""The memory of a batch: freed at the sender when it was sent, used again by the receiver when nobody looks at it."""

from __future__ import annotations

import gc
import weakref

from hypothesis import given
from hypothesis import strategies as st

from dlc_runtime.dataservice.client.buffers import BufferPool, round_up
from dlc_runtime.dataservice.wire import serialization
from harness.examples import examples


class Owner(bytearray):
    """An array that can be watched."""


def test_a_batch_that_was_sent_is_freed_at_once_and_waits_for_no_garbage_collector() -> None:
    """A worker makes few objects and large ones: the collector would come when hundreds of batches are held."""
    array = Owner(b"some")
    watched = weakref.ref(array)
    gc.disable()
    try:
        packed = serialization.pack({"images": [array], "label": 7})
        assert packed.size > len(array)
        del array
        assert watched() is not None
        del packed
        assert watched() is None
    finally:
        gc.enable()


def test_a_buffer_comes_back_when_the_last_view_of_it_is_gone_and_not_before() -> None:
    pool = BufferPool(1 << 20)
    buffer = pool.take(5000)
    view = memoryview(buffer.owner)[10:20]
    buffer.owner[10:20] = list(b"0123456789")
    del buffer
    assert pool.unused == 0
    assert bytes(view) == b"0123456789"
    del view
    assert pool.unused == round_up(5000)
    assert bytes(pool.take(4999).memory[10:20]) == b"0123456789"  # the same memory again


def test_memory_that_nobody_uses_is_bounded() -> None:
    pool = BufferPool(100_000)
    buffers = [pool.take(50_000) for _ in range(5)]
    buffers.clear()
    assert pool.unused <= 100_000


@examples(100)
@given(st.integers(0, 1 << 33))
def test_a_buffer_is_at_most_an_eighth_larger_than_asked_for_or_a_page(size: int) -> None:
    assert size <= round_up(size) <= max(4096, size + size // 8 + 4096)
    assert round_up(round_up(size)) == round_up(size)
