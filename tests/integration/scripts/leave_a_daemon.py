"""Starts a process in a session of its own, orphaned and deaf to SIGTERM, and ends well without it."""

import os
import signal
import time

MARK = "left-behind"

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print(f"{MARK} runs as {os.getpid()}", flush=True)
        time.sleep(1000)
    os._exit(0)
os.wait()
time.sleep(1)
