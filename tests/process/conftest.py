"""Tests that start programs and servers on this host: they need no Docker engine and no image."""

from __future__ import annotations

import harness.examples  # noqa: F401 (its profile is for all property tests)
