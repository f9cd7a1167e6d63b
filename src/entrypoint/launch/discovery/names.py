"""Waits until the names of the job's other hosts resolve: platforms start containers before their names exist."""

from __future__ import annotations

import socket
import sys
import threading
import time

from launch import signals
from launch.base import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

TIMEOUT = (
    900.0  # seconds; hosts of one job may be minutes apart, as long as the slowest pull of the image (DLC_PEER_TIMEOUT)
)
RETRY = 1.0  # seconds between two tries for one name
LOOK = 0.01  # seconds between looks at what the resolving threads found
REPORT = 15.0  # seconds between lines that say who is still missing


def wait(hosts: Iterable[str], timeout: float = TIMEOUT) -> dict[str, tuple[str, ...]]:
    """Resolve every host, all at once, until each has an address: host -> its IPv4 and IPv6 addresses.

    Raises LaunchError (UNAVAILABLE) naming the hosts that had none within `timeout` seconds, and StopRequested when a
    stop signal comes meanwhile. A resolver that hangs is waited for no longer than that either.
    """
    names = tuple(dict.fromkeys(hosts))
    found: dict[str, tuple[str, ...]] = {}
    done = threading.Event()
    for name in names:
        threading.Thread(target=_resolve, args=(name, found, done), daemon=True).start()
    started = time.monotonic()
    report_at = started + REPORT
    try:
        while len(found) < len(names):
            now = time.monotonic()
            missing = [name for name in names if name not in found]
            if now - started >= timeout:
                raise _missing(missing, len(names), timeout)
            if now >= report_at:
                print(f"dlc: waiting for {', '.join(missing)} to resolve", file=sys.stderr, flush=True)
                report_at = now + REPORT
            signals.sleep(min(LOOK, timeout))
    finally:
        done.set()
    return {name: found[name] for name in names}


def addresses(host: str) -> tuple[str, ...]:
    """The host's IPv4 and IPv6 addresses in the resolver's order; empty when it has none (yet)."""
    try:
        infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # UnicodeError: a label too long or empty
        return ()
    return tuple(dict.fromkeys(str(info[4][0]) for info in infos))


def _resolve(host: str, found: dict[str, tuple[str, ...]], done: threading.Event) -> None:
    while not done.is_set():
        known = addresses(host)
        if known:
            found[host] = known
            return
        done.wait(RETRY)


def _missing(missing: list[str], total: int, timeout: float) -> errors.LaunchError:
    return errors.LaunchError(
        errors.UNAVAILABLE,
        f"{', '.join(missing)} did not resolve within {timeout:g} s",
        expected=f"an address for each of the job's {total} other hosts",
        remedy="see whether those hosts started (their logs), or raise DLC_PEER_TIMEOUT",
    )
