"""The hosts of one job: they meet, and end together. May import every room."""
