"""Decisions of jobs before, files of the cache: which way a model's steps take, and what that depends on."""

from __future__ import annotations

import json
import os

from dlc_runtime.compiler.cache.machine import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

DECISIONS = "decisions"


def decision_path(folder: str, facts: Mapping[str, Any]) -> str:
    """Return the file of a decision. `facts`: what it depends on, such as the model's classes and shapes; JSON."""
    return os.path.join(folder, DECISIONS, f"{digest(json.dumps(facts, sort_keys=True))}.json")


def read_decision(folder: str, facts: Mapping[str, Any]) -> tuple[str, str]:
    """Return the way and the words for it; two times "" if no job has chosen, or its file cannot be read."""
    try:
        with open(decision_path(folder, facts), encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError):
        return "", ""
    if not isinstance(found, dict) or found.get("facts") != json.loads(json.dumps(facts)):
        return "", ""
    return str(found.get("way", "")), str(found.get("reason", ""))


def write_decision(folder: str, facts: Mapping[str, Any], way: str, reason: str) -> None:
    """Keep a decision. A full disk costs the next job its trials and nothing else."""
    path = decision_path(folder, facts)
    partial = f"{path}.{os.getpid()}.partial"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(partial, "w", encoding="utf-8") as stream:
            json.dump({"way": way, "reason": reason, "facts": facts}, stream, indent=1)
        os.replace(partial, path)
    except OSError:
        return
