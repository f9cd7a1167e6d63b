"""Images in registries: pushed, promoted, removed. May import core, engine, plan, inspection."""
