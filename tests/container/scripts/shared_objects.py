"""Prints, as JSON, the shared objects of an image: where each SONAME lies, and what the loader does not find for which.

Standard library only, Python 3.9 or newer. ELF as in the System V gABI, 64 bit and little-endian as every image is.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import struct
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PLACES = ("/opt", "/usr")
SHARED_OBJECT = re.compile(r"\.so(\.[0-9.]+)?$")
PT_LOAD, PT_DYNAMIC = 1, 2
DT_NULL, DT_STRTAB, DT_SONAME = 0, 5, 14
ELF_64_BIT = b"\x7fELF\x02"
AT_ONCE = 200  # files that one ldd is asked about


def elf_files() -> Iterator[str]:
    """Paths of shared objects and executable ELF files, each file once however many links it has."""
    seen = set()
    for path in (path for place in PLACES for path in Path(place).rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        status = path.stat()
        candidate = SHARED_OBJECT.search(path.name) or status.st_mode & 0o111
        if candidate and (status.st_dev, status.st_ino) not in seen and is_elf(path):
            seen.add((status.st_dev, status.st_ino))
            yield str(path)


def is_elf(path: Path) -> bool:
    """Whether a file begins as a 64 bit ELF file does."""
    with open(path, "rb") as file:
        return file.read(len(ELF_64_BIT)) == ELF_64_BIT


def soname(path: str) -> str:
    """DT_SONAME of an ELF file, or nothing."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        dynamic, loaded = segments(data)
        tags = dict(dynamic_entries(data, *dynamic)) if dynamic else {}
        if DT_SONAME not in tags or DT_STRTAB not in tags:
            return ""
        start = file_offset(tags[DT_STRTAB], loaded) + tags[DT_SONAME]
        return data[start : data.find(b"\0", start)].decode()


def segments(data: mmap.mmap) -> tuple[tuple[int, int] | None, list[tuple[int, int, int]]]:
    """(offset, size) of the dynamic section, and (address, offset, size) of what is loaded."""
    (table,) = struct.unpack_from("<Q", data, 0x20)
    entry_size, count = struct.unpack_from("<HH", data, 0x36)
    dynamic, loaded = None, []
    for index in range(count):
        kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", data, table + index * entry_size)
        if kind == PT_DYNAMIC:
            dynamic = (offset, size)
        elif kind == PT_LOAD:
            loaded.append((address, offset, size))
    return dynamic, loaded


def dynamic_entries(data: mmap.mmap, offset: int, size: int) -> Iterator[tuple[int, int]]:
    """(tag, value) up to the end mark."""
    for tag, value in struct.iter_unpack("<qQ", data[offset : offset + size]):
        if tag == DT_NULL:
            return
        yield tag, value


def file_offset(address: int, loaded: list[tuple[int, int, int]]) -> int:
    """Where the byte that is loaded at an address stands in the file."""
    return next(offset + address - start for start, offset, size in loaded if start <= address < start + size)


def missing(answers: list[tuple[str, list[str]]]) -> dict[str, list[str]]:
    """path -> names that the dynamic loader does not find for it, alone or as part of anything else that is complete.

    A library of a wheel is often found by the DT_RPATH of the module that loads it, and has none itself.
    """
    found: dict[str, list[str]] = {}
    complete: set[str] = set()
    for path, lines in answers:
        names = [line.split()[0] for line in lines if line.endswith("not found")]
        if names:
            found[path] = names
        else:
            complete.update(os.path.realpath(part) for line in lines for part in line.split() if part[0] == "/")
    return {path: names for path, names in found.items() if path not in complete}


def refused(answers: list[tuple[str, list[str]]]) -> list[str]:
    """Shared objects that the dynamic loader cannot load at all: of one that it can, ldd says something."""
    return [path for path, lines in answers if not lines and SHARED_OBJECT.search(path)]


def asked_of_loader(paths: list[str]) -> Iterator[tuple[str, list[str]]]:
    """(path, what ldd says that it loads)."""
    for first in range(0, len(paths), AT_ONCE):
        # Two paths at least: only then does ldd say which one it speaks of.
        argv = ["ldd", "/bin/sh", *paths[first : first + AT_ONCE]]
        answer = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
        for part in re.split(r"^(?=/)", answer, flags=re.MULTILINE):
            path, _, lines = part.partition(":\n")
            yield path, [line.strip() for line in lines.splitlines()]


def main() -> None:
    paths = sorted(elf_files())
    sonames = defaultdict(list)
    for path in paths:
        sonames[soname(path)].append(path)
    del sonames[""]
    answers = list(asked_of_loader(paths))
    print(json.dumps({"sonames": sonames, "missing": missing(answers), "refused": refused(answers)}))


if __name__ == "__main__":
    main()
