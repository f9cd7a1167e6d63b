"""Which compiler a job asks for, and whether it can work here. May import base, discovery, job and `context`."""
