"""The largest batch that fits: a job of a few steps for each trial. May import core, engine, job, places.local."""
