"""Turns cluster and job into processes. Pure. May import base, discovery, job."""
