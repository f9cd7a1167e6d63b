"""Errors of the compiler runtime."""

from __future__ import annotations


class CompilerError(RuntimeError):
    """The compiler runtime cannot do what the job asks for."""


class StrictError(CompilerError):
    """DLC_COMPILER_STRICT=1, and something stayed eager."""
