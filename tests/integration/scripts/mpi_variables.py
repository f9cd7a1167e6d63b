"""What a rank below mpirun finds in its environment."""

import os
import sys

names = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "SM_MODEL_DIR", "MASTER_ADDR")
line = " ".join(("rank", *(os.environ[name] for name in names)))
sys.stdout.write(f"{line}\n")  # at once: below mpirun's own output the ranks' pieces mix
