"""What a data host does: it serves until the launcher ends it."""

import time

print("serving data", flush=True)
while True:
    time.sleep(1)
