"""Docker engines: find the user's, or run a private one; talk to it. May import core, debian."""
