"""The static catalogue of images: values in, HTML text out. May import core, buildspec, inspection."""
