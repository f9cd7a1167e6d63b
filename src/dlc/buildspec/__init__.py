"""Which images exist: the files of buildspec/ and the locks, read and checked. Pure. May import core, debian."""
