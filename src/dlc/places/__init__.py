"""A job handed to what runs it: a room for each place. Imports nothing itself."""
