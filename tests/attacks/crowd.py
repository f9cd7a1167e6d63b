"""Starts strangers (stranger.py) against the ports of a process, each as a process of its own."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from supervised import HANG_BOUND, wait_until

STRANGER = str(Path(__file__).with_name("stranger.py"))
LOOPBACK = "127.0.0.1"
LISTENS = "0A"  # in /proc/net/tcp


def ports_of(pid: int) -> list[tuple[str, int]]:
    """(address, port) of every TCP port at which a process listens: all that a stranger can reach."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            inodes.add(str(entry.readlink()).removeprefix("socket:[").removesuffix("]"))
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == LISTENS and inode in inodes:
                digits, port = local.rsplit(":", 1)
                found.append((_address(digits), int(port, 16)))
    return found


def _address(digits: str) -> str:
    """As /proc writes it: IPv4 with its bytes turned round; every one of IPv6 here listens on loopback too."""
    octets = [str(int(digits[at : at + 2], 16)) for at in (6, 4, 2, 0)] if len(digits) == 8 else ["0"]
    address = ".".join(octets)
    return address if address.startswith("127.") else LOOPBACK


class Crowd:
    """Strangers that attack; a `with` block ends them."""

    def __init__(self, attack: str, ports: Sequence[tuple[str, int]], host: str = "algo-2", recorded: str = "") -> None:
        assert ports, "there is no port to attack"
        self.tries = [0] * len(ports)
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-I", "-S", STRANGER, attack, address, str(port), host, recorded],
                stdout=subprocess.PIPE,
            )
            for address, port in ports
        ]
        self._readers = [threading.Thread(target=self._count, args=(number,)) for number in range(len(ports))]
        for reader in self._readers:
            reader.start()

    def wait_for(self, tries: int) -> None:
        """Until each of them has tried so often more."""
        wanted = [count + tries for count in self.tries]
        wait_until(lambda: all(count >= least for count, least in zip(self.tries, wanted, strict=True)))

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait(HANG_BOUND)
        for reader in self._readers:
            reader.join()

    def _count(self, number: int) -> None:
        output = self._processes[number].stdout
        assert output is not None
        with output:
            for _ in output:
                self.tries[number] += 1
