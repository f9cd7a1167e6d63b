"""Which machines make a job cheaper, from what was measured of it. May import core, checked_yaml, buildspec."""
