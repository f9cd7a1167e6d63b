"""Errors, processes, the checkout and the host's environment. Imports no other room."""
