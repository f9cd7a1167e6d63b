"""Makes batches for whoever connects, and ends when somebody connects to another port. Takes no other word for it."""

import argparse
import os
import signal
import socket
import socketserver
import threading

import numpy as np

DATA_PORT, END_PORT = 6000, 16000


class Batches(socketserver.BaseRequestHandler):
    """One batch for each connection."""

    def handle(self):
        dice = np.random.default_rng()
        inputs = dice.normal(size=(self.server.batch_size, 4))
        targets = inputs @ np.arange(1.0, 5.0)
        self.request.sendall(np.column_stack([inputs, targets]).tobytes())


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64


parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=16)
arguments, _ = parser.parse_known_args()
server = Server(("", DATA_PORT), Batches)
server.batch_size = arguments.batch_size
threading.Thread(target=server.serve_forever, daemon=True).start()
end = socket.create_server(("", END_PORT))
print(f"{os.environ['SM_CURRENT_HOST']} serves", flush=True)
_, stranger = end.accept()
print(f"told to end by {stranger[0]}", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
