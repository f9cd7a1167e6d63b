"""The claims of jobs that have ended: by them a job's lines and its results are found from any folder.

A claim that ends is moved to a folder beside the claims. Its text says what the job was, its time when the job ended.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

# Beside the folder of claims.
ENDED = "ended-jobs"
# The oldest are dropped.
MOST_KEPT = 500


def end_claim(claim: Path) -> None:
    """Move a claim to those of ended jobs. If it cannot be kept it is removed, which costs the ended job nothing."""
    folder = claim.parent.parent / ENDED
    try:
        folder.mkdir(exist_ok=True)
        os.utime(claim)
        claim.replace(folder / claim.name)
        for path in _list_by_end(folder)[:-MOST_KEPT]:
            path.unlink(missing_ok=True)
    except OSError:
        claim.unlink(missing_ok=True)


def read_ended_claims(claims_folder: Path) -> dict[str, str]:
    """Map the ended jobs whose results are still there to the texts of their claims, the newest last."""
    found: dict[str, str] = {}
    for path in _list_by_end(claims_folder.parent / ENDED):
        # Another dlc may drop some meanwhile.
        with suppress(OSError):
            text = path.read_text(errors="replace")
            folder = str(read_facts(text).get("folder") or "")
            if folder and Path(folder).is_dir():
                found[path.name] = text
    return found


def read_facts(text: str) -> dict[str, Any]:
    """Return what the text of a claim says of its job; nothing if a killed dlc has written half of it."""
    # A dlc before this one wrote no second line, and one after it may write more into it.
    with suppress(ValueError):
        found = json.loads(text.partition("\n")[2] or "{}")
        return found if isinstance(found, dict) else {}
    return {}


def _list_by_end(folder: Path) -> list[Path]:
    """Return the claims, the newest last."""
    ends: dict[Path, float] = {}
    for path in folder.glob("*"):
        with suppress(OSError):
            ends[path] = path.stat().st_mtime
    return sorted(ends, key=lambda path: (ends[path], path.name))
