"""Pushes built images to registries. May import every room but locks and cli."""
