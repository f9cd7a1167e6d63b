"""Which way a training's steps take, decided by measuring, and kept for the next job; may import cache."""
