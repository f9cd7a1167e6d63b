"""What the environment asks of the compiler runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Optional

from dlc_runtime.compiler.base.errors import CompilerError

BACKEND = "DLC_COMPILER"
INDUCTOR, XLA, OFF = "inductor", "xla", "off"
BACKENDS = (INDUCTOR, XLA, OFF)
TRUE, FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")
REPORT = "/opt/ml/output/data/compiler"


class Settings(NamedTuple):
    backend: str = INDUCTOR
    strict: bool = False
    debug: bool = False
    dynamic: Optional[bool] = None  # noqa: UP045 - evaluated at run time, by Python 3.9 too
    eager_steps: int = 5
    report: str = REPORT
    minutes: float = 5.0
    debug_mib: int = 500


def read(environ: Mapping[str, str]) -> Settings:
    backend = environ.get(BACKEND, "").strip().lower() or OFF
    if backend not in BACKENDS:
        raise CompilerError(f"{BACKEND}={environ[BACKEND]}: expected one of {', '.join(BACKENDS)}")
    dynamic = environ.get("DLC_COMPILER_DYNAMIC", "auto").strip().lower()
    return Settings(
        backend=backend,
        strict=flag(environ, "DLC_COMPILER_STRICT"),
        debug=flag(environ, "DLC_COMPILER_DEBUG"),
        dynamic=None if dynamic in ("auto", "") else flag(environ, "DLC_COMPILER_DYNAMIC"),
        eager_steps=int(number(environ, "DLC_COMPILER_EAGER_STEPS", 5, least=2)),
        report=environ.get("DLC_COMPILER_REPORT") or REPORT,
        minutes=number(environ, "DLC_COMPILER_REPORT_MINUTES", 5.0, least=0.001),
        debug_mib=int(number(environ, "DLC_COMPILER_DEBUG_MB", 500, least=1)),
    )


def flag(environ: Mapping[str, str], name: str) -> bool:
    value = environ.get(name, "").strip().lower()
    if value not in TRUE + FALSE:
        raise CompilerError(f"{name}={environ[name]}: expected 1 or 0")
    return value in TRUE


def number(environ: Mapping[str, str], name: str, default: float, least: float) -> float:
    text = environ.get(name, "").strip()
    try:
        value = float(text) if text else default
    except ValueError:
        value = least - 1
    if not least <= value < 1e9:
        raise CompilerError(f"{name}={text}: expected a number from {least:g} on")
    return value
