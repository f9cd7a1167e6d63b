"""Compiled code and decisions that outlive a job. Imports the standard library, source_locations, settings, hooks."""
