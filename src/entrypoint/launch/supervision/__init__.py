"""Runs this host's processes to their end. May import base."""
