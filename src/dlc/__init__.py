"""dlc builds Deep Learning Container training images."""

# pyproject.toml and `dlc --version` take it from here; CHANGELOG.md says what is in it.
__version__ = "0.2.0"
