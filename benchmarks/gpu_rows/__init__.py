"""The parts of benchmarks/gpu_host.py; may import the standard library and `compiling`. Frameworks they only start."""
