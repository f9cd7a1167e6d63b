"""Bytes between data and training hosts; may import `errors`, and torch where it is used.

Tensors travel as their bytes after a description in JSON. Nothing that arrives is unpickled or evaluated.
"""
