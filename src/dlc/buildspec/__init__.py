"""Which images exist: files of buildspec/ and the locks, read. Pure, but for `locks`. May import checked_yaml, debian."""
