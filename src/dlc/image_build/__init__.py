"""Builds a plan with the engine. May import core, checked_yaml, debian, engine, buildspec, plan."""
