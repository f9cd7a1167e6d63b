"""What is to be built, as values. Pure. May import core, debian, buildspec."""
