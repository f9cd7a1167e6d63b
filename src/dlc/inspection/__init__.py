"""Looks at built images. May import every room but locks, push and cli."""
