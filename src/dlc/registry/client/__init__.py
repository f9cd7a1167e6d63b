"""Talks to container registries: addresses, credentials, requests, and what a repository holds."""
