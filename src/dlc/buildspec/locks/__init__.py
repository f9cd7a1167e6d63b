"""Resolves packages and writes the locks: runs uv. May import core, debian, buildspec."""
