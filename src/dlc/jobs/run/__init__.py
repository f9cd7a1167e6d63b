"""A training job on this machine: a container per host, on a network of its own. May import core, engine."""
