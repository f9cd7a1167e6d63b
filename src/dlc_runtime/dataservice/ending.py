"""When what serves on a data host ends: SIGTERM and SIGINT, in a script that has no handlers of its own."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


@contextlib.contextmanager
def until_signalled(stop: Callable[[], None]) -> Iterator[None]:
    """Within the block SIGTERM and SIGINT call `stop`, where this is the main thread and the script has no handlers."""
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number, default in ((signal.SIGTERM, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
            if signal.getsignal(number) == default:
                before[number] = signal.signal(number, lambda *_: stop())
    try:
        yield
    finally:
        for changed, handler in before.items():
            signal.signal(changed, handler)
