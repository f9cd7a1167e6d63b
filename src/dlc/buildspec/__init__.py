"""Which images exist: files of buildspec/ and locks, read. Pure but for `locks`. May import checked_yaml and debian."""
