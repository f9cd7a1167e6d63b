"""A job as a value, made by a command line or by a file, and taken by every place. May import core, buildspec."""
