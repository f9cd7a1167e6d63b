"""What the job is to run: parameters, entry point, code. May import base."""
