"""Hypothesis without wall-clock checks: a shared machine may be slow, which is no failure of the code."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("pure", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pure")
