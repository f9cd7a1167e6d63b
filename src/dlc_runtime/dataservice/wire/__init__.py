"""What travels between data hosts and training hosts, as bytes; may import `plan` and `errors`, and torch where it is used.

Tensors travel as their bytes after a description in JSON. Nothing that arrives is unpickled or evaluated.
"""
