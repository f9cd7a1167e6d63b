"""Neither ends nor listens when it is told to stop."""

import signal
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready to be stopped", flush=True)
while True:
    time.sleep(1)
