"""One strategy a file: what it starts on this host. May import base, discovery, job, and plan's context and network."""
