"""Training hosts: ask for batches, receive them, hand them to the training loop; may import `plan`, `wire`, `training`.

torch is imported only where a batch holds tensors, gRPC only in the thread that looks for servers.
"""
