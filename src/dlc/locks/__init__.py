"""Resolves packages anew and writes the locks. May import core, debian, buildspec."""
