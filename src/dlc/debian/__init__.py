"""Debian: recorded versions, the base file system, apt. May import core."""
