"""What a host of a job may use at most: the words of --cpus, --memory and --gpus, as `docker run` reads them. Pure."""

from __future__ import annotations

import re

LEAST_CPUS = 0.01
# Bytes: a container with less does not start.
LEAST_MEMORY = 6 << 20
# docker refuses a tenth decimal.
CPUS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?|\.[0-9]{1,9}")
SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?|\.[0-9]{1,9})(?:b|([kmgtp])(?:i?b)?)?", re.IGNORECASE)
GPUS = re.compile(r'all|[0-9]{1,9}|("?)device=([\w:/.-]+(?:,[\w:/.-]+)*)\1', re.ASCII)
# Begins a value of --gpus, not a group.
DEVICES = re.compile(r'"?device=')
# The job says that there is no limit.
UNLIMITED = "0"
# Each is 1,024 times the one before.
UNITS = " kmgtp"


def read_cpus(word: str) -> str:
    """Return the value of --cpus, empty for no limit. Raises ValueError with what was expected."""
    if not CPUS.fullmatch(word) or 0 < float(word) < LEAST_CPUS:
        raise ValueError(f"a number of CPUs, such as 0.5, and no less than {LEAST_CPUS}")
    return word if float(word) else ""


def read_memory(word: str) -> str:
    """Return the value of --memory, empty for no limit. Raises ValueError with what was expected."""
    size = read_size(word)
    if 0 < count_bytes(size) < LEAST_MEMORY:
        raise ValueError("6m or more, which is the least that a container starts with")
    return size if count_bytes(size) else ""


def read_size(word: str) -> str:
    """Return a size in its shortest spelling: 4gb, 4GiB and 4G are 4g, as for docker. Raises ValueError otherwise."""
    found = SIZE.fullmatch(word)
    if not found:
        raise ValueError("a size, such as 512m or 4g")
    number, unit = found.groups(default="")
    return f"{'0' * number.startswith('.')}{number}{unit.lower()}"


def read_gpus(word: str) -> str:
    """Return the value of --gpus, empty for none. Raises ValueError with what was expected."""
    found = GPUS.fullmatch(word)
    if not found:
        raise ValueError("`all` or a number of GPUs, or some of them, such as device=0,1")
    if found[2]:
        return f"device={found[2]}"
    # The engine would want a GPU driver for 0 too.
    return word.lstrip("0")


def quote_gpus(gpus: str) -> str:
    """Return --gpus as the docker client reads it, which is CSV: it would take a second device for another setting."""
    return f'"{gpus}"' if gpus.startswith("device=") else gpus


def count_bytes(size: str) -> int:
    """Return how many bytes a size is. Raises ValueError for a size that `read_size` refuses."""
    size = read_size(size)
    unit = size[-1] if size[-1] in UNITS else " "
    return int(float(size.rstrip(UNITS)) * 1024 ** UNITS.index(unit))
