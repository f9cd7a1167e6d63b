"""What a rank below mpirun finds in its environment."""

import os

names = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "SM_MODEL_DIR", "MASTER_ADDR")
print("rank", *(os.environ[name] for name in names))
