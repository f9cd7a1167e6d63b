"""Looks at built images. May import image_build and what is below it."""
