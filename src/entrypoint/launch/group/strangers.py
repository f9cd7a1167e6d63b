"""Connections to the hub that have not proved yet that they belong to the job: few, for seconds, fairly shared."""

from __future__ import annotations

from collections import Counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launch.group.channel import Channel

GREETING_BOUND = 10.0  # seconds to prove it
FEWEST_SEATS = 256  # at a time; more where more hosts may come at once


class Strangers:
    """When all seats are taken, the address that holds most of them loses its oldest: nobody can keep others out."""

    def __init__(self, hosts: int) -> None:
        self._seats = max(FEWEST_SEATS, 2 * hosts)
        self._addresses: dict[Channel, str] = {}  # oldest first

    def add(self, channel: Channel, address: str) -> Channel | None:
        """Seat a newcomer; the connection to close for it, if any."""
        self._addresses[channel] = address
        return self.least_welcome() if len(self._addresses) > self._seats else None

    def discard(self, channel: Channel) -> None:
        """It proved itself, or is gone."""
        self._addresses.pop(channel, None)

    def least_welcome(self) -> Channel | None:
        """The oldest connection of the address that has most."""
        if not self._addresses:
            return None
        greedy = Counter(self._addresses.values()).most_common(1)[0][0]
        return next(channel for channel, address in self._addresses.items() if address == greedy)

    def overdue(self, now: float) -> list[Channel]:
        """Those that had their time."""
        return [channel for channel in self._addresses if now - channel.opened_at > GREETING_BOUND]
