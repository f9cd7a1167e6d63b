"""Measures what a training job waits for, in an unchanged script; may import the standard library, torch, tensorflow.

A `.pth` line imports `import_hook` in every Python of a job with DLC_PROFILE=1, so this file imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeVar

    T = TypeVar("T")


def watch(batches: Iterable[T]) -> Iterator[T]:
    """Iterate over `batches` and measure each step, whether DLC_PROFILE is set or not.

    Loops over a DataLoader or a tf.data.Dataset need it only if DLC_PROFILE is not set.
    """
    from dlc_runtime.profile import import_hook
    from dlc_runtime.profile.session import measure_loop

    import_hook.patch_imported()
    return measure_loop(batches)
