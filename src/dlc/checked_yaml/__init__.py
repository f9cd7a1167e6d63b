"""YAML files read with a mark at each value, layered, and checked with one clear problem each. May import core."""
