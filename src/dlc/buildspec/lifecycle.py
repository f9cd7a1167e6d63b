"""Warnings about images whose end of patch is near or past."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from dlc.buildspec.variant import Variant

NOTICE = timedelta(days=90)


def warnings(variants: Sequence[Variant], today: date) -> list[str]:
    """One line for each image whose end of patch is less than NOTICE away, or past; images without one have none."""
    return [f"{variant.id}: {text}" for variant in variants if (text := _warning(variant.header.eop, today))]


def _warning(eop: str, today: date) -> str:
    if not eop:
        return ""
    left = (date.fromisoformat(eop) - today).days
    if left < 0:
        return f"end of patch was {eop}, {-left} days ago: move to a newer version"
    if left <= NOTICE.days:
        return f"end of patch is {eop}, in {left} days: plan the move to a newer version"
    return ""
