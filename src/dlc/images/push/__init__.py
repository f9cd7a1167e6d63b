"""Pushes built images to registries. May import core, engine, buildspec, plan, build, images.inspection."""
