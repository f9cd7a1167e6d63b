"""A plan as a file for a CI system: a job for each image. Pure."""
