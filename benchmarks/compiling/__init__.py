"""The parts of benchmarks/compiler.py; may import the standard library. What they measure they do not import."""
