"""Which hosts and devices the job has. May import base."""
