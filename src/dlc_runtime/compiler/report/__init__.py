"""The report of a job, whatever compiles; may import choosing, settings, hooks, source_locations."""
