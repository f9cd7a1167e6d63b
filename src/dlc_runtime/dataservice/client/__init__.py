"""Training hosts: ask for batches and hand them to the training loop; may import `schedule`, `wire`, `errors`.

torch is imported only where a batch holds tensors, gRPC only in the thread that looks for servers.
"""
