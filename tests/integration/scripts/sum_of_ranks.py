"""A job of several hosts without a framework: the hosts in TF_CONFIG add up their ranks over real sockets."""

import json
import os
import socket
import time

config = json.loads(os.environ["TF_CONFIG"])
workers, rank = config["cluster"]["worker"], config["task"]["index"]
host, port = workers[0].rsplit(":", 1)
total = rank + 1
if rank == 0:
    with socket.create_server(("", int(port))) as server:
        for _ in workers[1:]:
            connection, _ = server.accept()
            total += int(connection.recv(16))
else:
    deadline = time.monotonic() + 120
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=5) as connection:
                connection.sendall(str(rank + 1).encode())
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
print(
    f"node {os.environ['SLURMD_NODENAME']} is {os.environ['SM_CURRENT_HOST']}, rank {rank} of {len(workers)}: {total}"
)
