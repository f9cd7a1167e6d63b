"""A framework that the launcher does not hold, in the package toyflow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from launch.plan.frameworks import Framework, HostFacts


def _variables(facts: HostFacts) -> dict[str, str]:
    return {"TOYFLOW_DEVICES": str(facts.devices.accelerators)} if "toyflow" in facts.installed else {}


def _find_advice(lines: Iterable[str], _env: Mapping[str, str]) -> str:
    return "wind it up first" if any("ToyError" in line for line in lines) else ""


ROW = Framework("Toyflow", _variables, find_advice=_find_advice)
