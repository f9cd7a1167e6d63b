"""Findings and errors, which every room uses; may import libcst and the standard library."""
