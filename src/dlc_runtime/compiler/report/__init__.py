"""The report of a job, whatever compiles, and the choice of a way; may import settings, hooks, source_locations."""
