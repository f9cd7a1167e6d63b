"""Data hosts: worker processes that make batches; may import `schedule`, `wire`, `errors`, and torch lazily.

`serve` stays in the user's process and does nothing but start workers and the control process, and start them again.
So what forks has no thread and no gRPC in it.
"""
