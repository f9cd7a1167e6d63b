"""What is to be built, as values. Pure. May import core, checked_yaml, debian, buildspec."""
