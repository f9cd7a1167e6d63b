"""This host in the group, and how the group is reached."""

from __future__ import annotations

from launch.base.named_tuple import NamedTuple
from launch.group.ledger import Rules


class Place(NamedTuple):
    """What a host needs to know to join. Durations in seconds."""

    host: str
    rules: Rules
    key: bytes
    port: int
    heartbeat: float
    interface: str = ""
    door: int | None = None  # the port at which other hosts try whether they reach this one, 0 for any
    takeover_file: str = ""  # by which a data host's program says that others can take over; empty: nobody listens

    @property
    def leads(self) -> bool:
        """Whether the hub is here."""
        return self.host == self.rules.leader
