"""Builds a plan with the engine. May import core, debian, engine, buildspec, plan."""
