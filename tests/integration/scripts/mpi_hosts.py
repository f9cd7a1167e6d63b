"""A rank below mpirun that adds up all ranks' numbers by Open MPI itself, and says where it ran."""

import ctypes
import os
import socket
import sys

mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)  # Open MPI 4 and 5
world, integer, sum_of = (
    ctypes.byref(ctypes.c_char.in_dll(mpi, f"ompi_mpi_{name}")) for name in ("comm_world", "int", "op_sum")
)
mpi.MPI_Init(None, None)
rank, size, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
mpi.MPI_Allreduce(ctypes.byref(rank), ctypes.byref(total), 1, integer, sum_of, world)
mpi.MPI_Finalize()
place = f"rank {rank.value} of {size.value} on {socket.gethostname()}"
# At once: below mpirun's own output the ranks' pieces mix.
sys.stdout.write(f"{place}: {total.value} {os.environ.get('SM_MODEL_DIR', '')}\n")
