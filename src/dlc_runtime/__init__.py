"""What runs inside the user's training process; no room may import the launcher or dlc.

`torch`, `tensorflow` and `grpc` are imported inside functions, or in modules that only they need.
"""
