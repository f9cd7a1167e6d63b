"""A job as a value, made by a command line or by a file, taken by every place. May import checked_yaml, buildspec."""
