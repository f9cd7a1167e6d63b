"""Training jobs whose truth is known: known_jobs.py FOLDER NAME... runs each in a process of its own, in turn.

torch is imported once. Each job has 40 steps or so and leaves its report in FOLDER/NAME.
"""

import contextlib
import multiprocessing
import os
import socket
import socketserver
import sys
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset

STEPS, FEWER, BATCH = 40, 25, 4
START = multiprocessing.get_context("fork")


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Samples(Dataset):
    """`cost` computes for a sample, `reads` asks a storage that answers after so many seconds, `sleeps` sleeps."""

    def __init__(self, cost=0.0, reads=0.0, sleeps=0.0, slow=0, steps=STEPS):
        self.cost, self.reads, self.sleeps, self.slow, self.steps = cost, reads, sleeps, slow, steps
        self.storage = None

    def __len__(self):
        return self.steps * BATCH

    def __getitem__(self, index):
        spin(self.cost)
        time.sleep(self.sleeps)
        if self.slow and index % self.slow == self.slow - 1:
            time.sleep(0.3)
        if self.reads:
            self.read()
        return torch.zeros(16)

    def read(self):
        if self.storage is None:
            self.storage = socket.create_connection(("127.0.0.1", int(os.environ["STORAGE"])))
        self.storage.sendall(f"{self.reads:8.5f}".encode())
        self.storage.recv(1024)


class Storage(socketserver.BaseRequestHandler):
    def handle(self):
        while asked := self.request.recv(8):
            time.sleep(float(asked))
            self.request.sendall(bytes(1024))


def serve(ready):
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Storage)
    server.daemon_threads = True
    ready.send(server.server_address[1])
    server.serve_forever()


@contextlib.contextmanager
def storage():
    """A storage in a process of its own, for the jobs that read."""
    here, there = START.Pipe()
    process = START.Process(target=serve, args=(there,), daemon=True)
    process.start()
    os.environ["STORAGE"] = str(here.recv())
    try:
        yield
    finally:
        process.kill()
        process.join()


@contextlib.contextmanager
def burners():
    """Three other programs on the one processor that this job may use."""
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    started = [START.Process(target=spin, args=(600,), daemon=True) for _ in range(3)]
    for each in started:
        each.start()
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.join()


def train(step, workers=0, rests=0.0, barrier=None, **samples):
    for _ in DataLoader(Samples(**samples), batch_size=BATCH, num_workers=workers):
        spin(step)
        time.sleep(rests)
        if barrier is not None:
            barrier.wait()


def beside_burners(*words, **named):
    # The burners belong to no job: they are started before the job's own process, and are no children of it.
    with burners():
        child = START.Process(target=train, args=words, kwargs=named)
        child.start()
        child.join()


def on_one_processor(*words, **named):
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    train(*words, **named)


def differing_ranks():
    """Two ranks that wait for each other in each step; the storage of the second one is slow."""
    barrier = START.Barrier(2)

    def begin(rank, reads):
        os.environ.update(RANK=str(rank), WORLD_SIZE="2")
        train(0.005, 0, barrier=barrier, reads=reads, steps=FEWER)

    ranks = [START.Process(target=begin, args=(rank, reads)) for rank, reads in enumerate((0.0005, 0.01))]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()


def no_loader():
    for _ in range(STEPS):
        spin(0.002)


CORES = max(len(os.sched_getaffinity(0)), 2)
JOBS = {
    "computes": lambda: train(0.02, 1, steps=FEWER),
    "copies": lambda: train(0.0, 1, rests=0.02),
    "reads": lambda: train(0.004, 0, reads=0.01, steps=FEWER),
    "reads, one worker": lambda: train(0.004, 1, reads=0.01),
    "reads, a worker for each core": lambda: train(0.004, CORES, reads=0.03),
    "prepares": lambda: train(0.004, 0, cost=0.006, steps=FEWER),
    "prepares, one worker": lambda: train(0.004, 1, cost=0.006, steps=FEWER),
    "prepares on one processor": lambda: on_one_processor(0.004, 3, cost=0.006, steps=FEWER),
    "a slow sample now and then": lambda: train(0.01, 2, slow=40, steps=60),
    "ranks differ": differing_ranks,
    "starved by others": lambda: beside_burners(0.002, 1, cost=0.004, steps=FEWER),
    "sleeps beside others": lambda: beside_burners(0.002, 1, sleeps=0.02, steps=FEWER),
    "few steps": lambda: train(0.004, 0, reads=0.01, steps=6),
    "no loader": no_loader,
}


def main():
    folder, *names = sys.argv[1:]
    torch.set_num_threads(1)
    with storage():
        for name in names:
            os.environ["DLC_PROFILE_REPORT"] = f"{folder}/{name}"
            job = START.Process(target=JOBS[name])
            job.start()
            job.join()
            print(f"{name}: {job.exitcode}", flush=True)


if __name__ == "__main__":
    threading.current_thread().name = "main"
    main()
