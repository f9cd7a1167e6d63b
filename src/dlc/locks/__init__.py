"""Resolves packages and writes the locks. May import core, debian, buildspec."""
