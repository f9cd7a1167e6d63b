"""Writes a plan as a folder that `docker build` alone turns into the image."""
