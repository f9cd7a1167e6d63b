"""What is done with built images: looked at (`inspection`), sent to registries (`push`). Imports nothing itself."""
