"""Takes a second."""

import time

time.sleep(1)
print("one second is over", flush=True)
