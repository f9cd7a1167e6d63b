"""Stand-ins for `typing` and `importlib`, which delay each start, and a stderr that never fails.

`typing` takes 2 ms to import and compiles every annotation: 4 ms more.
"""

from __future__ import annotations

import os
import sys
from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any
    from typing import NamedTuple as NamedTuple
else:

    class _Values(type):
        """Makes a named tuple of a class: its annotations are the fields, what they are set to the defaults."""

        def __new__(cls, name, _bases, members):
            fields = members.get("__annotations__", {})
            defaults = [members.pop(field) for field in fields if field in members]
            made = namedtuple(name, fields, defaults=defaults, module=members["__module__"])
            for member, value in members.items():
                setattr(made, member, value)
            return made

    NamedTuple = type.__new__(_Values, "NamedTuple", (), {})


def load_module(name: str) -> Any:
    """Return the module with this full name: importlib.import_module without the import of importlib."""
    __import__(name)
    return sys.modules[name]


def list_modules(path: Iterable[str]) -> list[str]:
    """Return the names of the modules of a package, whose `__path__` is given."""
    files = {name for folder in path for name in os.listdir(folder) if name.endswith(".py")} - {"__init__.py"}
    return sorted(name[:-3] for name in files)


class Unfailing:
    """A stderr that never fails: a log that cannot be written (full disk, reader gone) changes nothing else.

    As much of a text stream as print() needs. Whole lines are written at once; what cannot be is lost.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._text = ""

    def write(self, text: str) -> int:
        """Keep the text until the end of its line."""
        self._text += text
        if self._text.endswith("\n"):
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Write what is kept."""
        data, self._text = self._text.encode("utf-8", "backslashreplace"), ""
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError:
            return
