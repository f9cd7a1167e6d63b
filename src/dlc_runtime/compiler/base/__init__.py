"""What every room here uses: settings, errors, the log, places in sources; may import the standard library only."""
