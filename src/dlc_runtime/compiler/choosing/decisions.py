"""Decisions of jobs before, files of the cache: which way a model's steps take, and what that depends on."""

from __future__ import annotations

import json
import os

from dlc_runtime.compiler.cache.machine import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from dlc_runtime.compiler.choosing.choosing import Choosing

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


class Decisions:
    """Choices of jobs before, and of this process for an equal model, such as the fold before."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}  # what the choice depends on
        self._known: dict[str, tuple[str, str]] = {}

    def kept(self, folder: str) -> tuple[str, str]:
        """Return an earlier decision. `folder`: of the compile cache, or ""."""
        known = self._known.get(json.dumps(self.facts))
        return known or (read_decision(folder, self.facts) if folder else ("", ""))

    def keep(self, choosing: Choosing, folder: str, given_up: str = "") -> None:
        """Keep a decision. `given_up`: why a job that ends undecided is not to be tried so again."""
        found, name = (choosing.way, given_up or choosing.reason), json.dumps(self.facts)
        if (given_up or choosing.is_known()) and self._known.get(name) != found:
            self._known[name] = found
            if folder:
                write_decision(folder, self.facts, *found)
