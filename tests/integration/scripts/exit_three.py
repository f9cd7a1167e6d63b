"""A training script that fails with a code of its own after saying why."""

import sys

print("reading the data")
print("ValueError: channel training holds no parquet file", file=sys.stderr)
sys.exit(3)
