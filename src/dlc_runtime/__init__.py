"""What runs inside the user's training process: each room is used on its own and may import nothing of the launcher or of dlc.

`torch`, `tensorflow` and `grpc` are imported inside functions, or in modules that only they need.
"""
