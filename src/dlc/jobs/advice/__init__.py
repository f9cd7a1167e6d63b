"""Which machines make a training job cheaper, from what was measured of it. May import core and buildspec."""
