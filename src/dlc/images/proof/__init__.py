"""Signed statements about a pushed image, and their verification. Imports what is below push, and push itself."""
