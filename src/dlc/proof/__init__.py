"""Signed statements about a pushed image, and their verification. May import registry and what is below it."""
