"""The folder of compiled code that outlives a job."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, MutableMapping


def use(environ: MutableMapping[str, str]) -> dict[str, Any]:
    return {}
