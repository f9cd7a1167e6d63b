"""What the entrypoint of a training image does between `train` and the user's processes."""
