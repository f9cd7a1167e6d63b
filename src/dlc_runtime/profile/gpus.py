"""How busy the GPUs are, from nvidia-smi, which runs beside the job for as long as it is measured."""

from __future__ import annotations

import contextlib
import subprocess
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

QUERY = (
    "nvidia-smi",
    "--query-gpu=index,utilization.gpu,memory.used,name",
    "--format=csv,noheader,nounits",
    "--loop=1",
)
ENDS = 5.0  # seconds; only a bound


class Gpus:
    """Where there is no nvidia-smi it knows nothing."""

    def __init__(self, command: tuple[str, ...] = QUERY) -> None:
        self._lock = threading.Lock()
        self._sums: dict[str, tuple[int, float, float, str]] = {}  # index -> samples, use, most memory, name
        self._child = None
        with contextlib.suppress(OSError):
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        self._reader = threading.Thread(target=self._read, name="dlc-profile-gpus", daemon=True)
        if self._child is not None:
            self._reader.start()

    def _read(self) -> None:
        child = self._child
        for line in child.stdout if child is not None and child.stdout is not None else ():
            index, *rest = (field.strip() for field in line.split(",", 3))
            with contextlib.suppress(ValueError):  # `[N/A]` of a GPU that does not say
                use, memory, name = float(rest[0]), float(rest[1]), rest[2]
                with self._lock:
                    samples, total, most, _ = self._sums.get(index, (0, 0.0, 0.0, ""))
                    self._sums[index] = (samples + 1, total + use, max(most, memory), name)

    def end(self) -> None:
        if self._child is not None:
            self._child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(ENDS)
            self._reader.join(ENDS)
            if self._child.stdout is not None and not self._reader.is_alive():
                self._child.stdout.close()

    def as_json(self) -> dict[str, Any] | None:
        with self._lock:
            found = dict(self._sums)
        if not found:
            return None
        each = [
            {"index": index, "name": name, "use": use / samples / 100, "memory_mib": memory}
            for index, (samples, use, memory, name) in sorted(found.items())
        ]
        shares = [use / samples / 100 for samples, use, _, _ in found.values()]
        return {"use": sum(shares) / len(shares), "gpus": each}
