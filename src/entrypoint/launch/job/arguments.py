"""Hyperparameters as command-line arguments, in the dialect of the platform's toolkit or of the SDK 3.x drivers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

TOOLKIT = "toolkit"
SDK3 = "sdk3"
DIALECTS = (TOOLKIT, SDK3)


def toolkit_arguments(hyperparameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Two items per hyperparameter, sorted by key: `--key value`, `-k value` for a key of one character.

    Booleans are True and False, objects `k=v,k=v`, lists Python's repr (contract, section 2.2).
    """
    arguments: list[str] = []
    for key in sorted(hyperparameters):
        arguments += [_toolkit_option(key), _toolkit_value(hyperparameters[key])]
    return tuple(arguments)


def _toolkit_option(key: str) -> str:
    if not key:
        return ""
    return f"--{key}" if len(key) > 1 else f"-{key}"


def _toolkit_value(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return ",".join(f"{key}={value[key]}" for key in sorted(value))
    return str(value)


def sdk3_arguments(hyperparameters: Mapping[str, Any]) -> tuple[str, ...]:
    """`--key value` in file order, always two dashes, strings as they are and everything else as JSON text."""
    arguments: list[str] = []
    for key, value in hyperparameters.items():
        arguments += [f"--{key}", value if isinstance(value, str) else json.dumps(value)]
    return tuple(arguments)
