"""Text and numbers as the page shows them. What comes from a script is never markup."""

from __future__ import annotations

import html


def escape(text: object) -> str:
    return html.escape(str(text), quote=False)


def attribute(text: object) -> str:
    return html.escape(str(text), quote=True)


def seconds(value: float | None) -> str:
    if value is None:
        return "-"
    unit, size = ("s", 1.0) if value >= 1 else ("ms", 1e-3) if value >= 1e-3 else ("\u00b5s", 1e-6)
    shown = value / size
    return f"{shown:.0f} {unit}" if shown >= 99.5 or shown == int(shown) else f"{shown:.3g} {unit}"
