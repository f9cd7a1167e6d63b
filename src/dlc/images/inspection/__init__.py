"""Looks at built images. May import core, debian, engine, buildspec, plan, build."""
