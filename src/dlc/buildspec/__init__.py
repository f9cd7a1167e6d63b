"""Which images exist: the files of buildspec/ and the locks, read. Pure, but for `locks`. May import core, debian."""
