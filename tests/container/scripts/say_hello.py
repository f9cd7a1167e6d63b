"""A training script that says what arguments it was given."""

import sys

print(f"hello from {sys.argv[1:]}")
