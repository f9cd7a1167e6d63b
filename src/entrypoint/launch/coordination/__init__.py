"""The hosts of one job: they meet, watch each other and end together. May import base, discovery, supervision."""
