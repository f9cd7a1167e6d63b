"""Checks before a job starts, of this host and between hosts. May import base, discovery, plan, coordination."""
