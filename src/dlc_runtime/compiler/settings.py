"""The compiler's settings, from the environment, and its errors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple, Optional

BACKEND = "DLC_COMPILER"
INDUCTOR, XLA, OFF = "inductor", "xla", "off"
BACKENDS = (INDUCTOR, XLA, OFF)
AUTO, DEFAULT = "auto", "default"
MODES = (AUTO, DEFAULT, "cuda-graphs", "regional", "max")
NORMAL, MOST = "normal", "max"
# Seconds and share of the job so far; the larger counts. XLA compiles in seconds, and never beside the training.
BUDGET, BUDGET_OF_XLA = (0.0, 0.02), (60.0, 0.05)
TRUE, FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")
REPORT = "/opt/ml/output/data/compiler"


class Settings(NamedTuple):
    backend: str = INDUCTOR
    strict: bool = False
    debug: bool = False
    dynamic: Optional[bool] = None  # noqa: UP045
    eager_steps: int = 5
    report: str = REPORT
    minutes: float = 5.0
    debug_mib: int = 500
    mode: str = AUTO
    effort: str = NORMAL
    budget: tuple[float, float] = BUDGET
    tf32: bool = False
    optimizer: bool = True  # fused steps
    unchecked: bool = False  # what cannot be compared with eager is used


def read_settings(environ: Mapping[str, str]) -> Settings:
    backend = read_choice({BACKEND: environ.get(BACKEND, "").strip() or OFF}, BACKEND, BACKENDS)
    dynamic = environ.get("DLC_COMPILER_DYNAMIC", "auto").strip().lower()
    return Settings(
        backend=backend,
        strict=read_flag(environ, "DLC_COMPILER_STRICT"),
        debug=read_flag(environ, "DLC_COMPILER_DEBUG"),
        dynamic=None if dynamic in ("auto", "") else read_flag(environ, "DLC_COMPILER_DYNAMIC"),
        eager_steps=int(read_number(environ, "DLC_COMPILER_EAGER_STEPS", 5, least=2)),
        # The script may change its working directory.
        report=os.path.abspath(environ.get("DLC_COMPILER_REPORT") or REPORT),
        minutes=read_number(environ, "DLC_COMPILER_REPORT_MINUTES", 5.0, least=0.001),
        debug_mib=int(read_number(environ, "DLC_COMPILER_DEBUG_MB", 500, least=1)),
        mode=read_choice(environ, "DLC_COMPILER_MODE", MODES),
        effort=read_choice(environ, "DLC_COMPILER_EFFORT", (NORMAL, MOST)),
        budget=read_budget(environ.get("DLC_COMPILER_BUDGET", ""), BUDGET_OF_XLA if backend == XLA else BUDGET),
        tf32=read_flag(environ, "DLC_COMPILER_TF32"),
        optimizer=read_choice(environ, "DLC_COMPILER_OPTIMIZER", (AUTO, OFF)) == AUTO,
        unchecked=read_flag(environ, "DLC_COMPILER_UNCHECKED"),
    )


def read_choice(environ: Mapping[str, str], name: str, values: tuple[str, ...]) -> str:
    """Return a variable's value, else the first of `values`."""
    value = environ.get(name, "").strip().lower() or values[0]
    if value not in values:
        raise CompilerError(f"{name}={environ[name]}: expected one of {', '.join(values)}")
    return value


def read_budget(text: str, default: tuple[float, float]) -> tuple[float, float]:
    """Read `SECONDS`, `PERCENT%` or both with a comma."""
    if not text.strip():
        return default
    seconds = share = 0.0
    try:
        for part in map(str.strip, text.split(",")):
            value = float(part.rstrip("%"))
            if not 0 <= value < 1e9:
                raise ValueError(part)
            if part.endswith("%"):
                share = value / 100
            else:
                seconds = value
    except ValueError:
        raise CompilerError(
            f"DLC_COMPILER_BUDGET={text}: expected seconds, a percentage of the job so far or both, such as 60,5%"
        ) from None
    return seconds, share


def read_flag(environ: Mapping[str, str], name: str) -> bool:
    value = environ.get(name, "").strip().lower()
    if value not in TRUE + FALSE:
        raise CompilerError(f"{name}={environ[name]}: expected 1 or 0")
    return value in TRUE


def read_number(environ: Mapping[str, str], name: str, default: float, least: float) -> float:
    text = environ.get(name, "").strip()
    try:
        value = float(text or default)
    except ValueError:
        value = least - 1
    if not least <= value < 1e9:
        raise CompilerError(f"{name}={text}: expected a number from {least:g} on")
    return value


class CompilerError(RuntimeError):
    """What the job asks for cannot be done."""


class StrictError(CompilerError):
    """Something stayed eager in a strict job."""
