"""A rank that prints as fast as it can, on both streams; each line says whose it is, some are up to 64 KiB long."""

import os
import random
import sys

rank = os.environ["OMPI_COMM_WORLD_RANK"]
sizes = random.Random(rank)
for number in range(30_000):
    size = sizes.randrange(4000, 65_000) if number % 1000 == 999 else sizes.randrange(150)
    print(rank, number, rank * size, file=sys.stdout if number % 3 else sys.stderr)
