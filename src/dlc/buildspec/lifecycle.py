"""Warnings about images whose end of patch is near or past, or that nobody supports any more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, timedelta

from dlc.buildspec.models import Header
from dlc.buildspec.variant import Variant
from dlc.core.errors import ImageError

NOTICE = timedelta(days=90)


def warnings(variants: Sequence[Variant], today: date) -> list[str]:
    """One line for each image that is unsupported, or whose end of patch is less than NOTICE away, or past."""
    return [f"{variant.id}: {text}" for variant in variants if (text := _warning(variant.header, today))]


def require_supported(variants: Iterable[Variant]) -> None:
    """Raise ImageError for images that get no fixes any more: whoever pulls one would not know."""
    lines = [f"{v.id}: unsupported: {v.header.unsupported}" for v in variants if v.header.unsupported]
    if lines:
        raise ImageError("\n".join(lines), "push a newer version, or name these images and add --unsupported")


def _warning(header: Header, today: date) -> str:
    eop = header.eop
    if header.unsupported:
        return f"unsupported: {header.unsupported}: move to a newer version"
    if not eop:
        return ""
    left = (date.fromisoformat(eop) - today).days
    if left < 0:
        return f"end of patch was {eop}, {-left} days ago: move to a newer version"
    if left <= NOTICE.days:
        return f"end of patch is {eop}, in {left} days: plan the move to a newer version"
    return ""
