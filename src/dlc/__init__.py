"""dlc builds Deep Learning Container training images."""

# pyproject.toml and `dlc --version` take it from here; CHANGELOG.md says what is in it.
__version__ = "1.0.0"
