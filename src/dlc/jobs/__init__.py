"""What is done with training jobs: run on this machine (`run`). Imports nothing itself."""
