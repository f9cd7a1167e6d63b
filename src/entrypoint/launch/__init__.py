"""What the entrypoint of a training image does between `train` and the user's processes."""

import os
import sys

# Where dlc_channel lies: in an image beside dlc_runtime, in a checkout beside the entrypoint. Last, so that no other
# import looks there first.
_above = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path += [os.path.join(_above, "runtime"), _above]
