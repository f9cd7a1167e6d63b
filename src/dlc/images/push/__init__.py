"""Pushes built images to registries. May import core, engine, plan, images.inspection."""
