"""Counts training steps for the launcher, which tells how far the job is (docs/progress.md). Imports no framework.

A `.pth` line imports `import_hook` in each Python of a job whose launcher set DLC_STEPS_DIR, so this file imports
nothing. A fault here is told once, and the script trains on.
"""
