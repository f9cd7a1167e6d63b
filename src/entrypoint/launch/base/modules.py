"""Imports a module by a name that is not known before: importlib.import_module without the import of importlib."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def load(name: str) -> Any:
    """The module with this full name."""
    __import__(name)
    return sys.modules[name]
