"""NamedTuple without `typing`, which takes 2 ms to import and compiles every annotation: 4 ms more at each start."""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
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
