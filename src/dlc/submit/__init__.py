"""A job handed to an engine that exists: a room for each place. Imports nothing itself."""
