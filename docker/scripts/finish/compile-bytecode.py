"""Compiles every Python file below a folder that has no bytecode yet, so that imports are fast and builds repeat.

The bytecode carries a hash in place of a time (PEP 552, unchecked), so two builds give the same bytes; files compiled
in a lower layer are left alone, so no byte is stored twice. Standard library only; run with the interpreter that will
import them.
"""

import importlib.util
import py_compile
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path


def sources(folder):
    """Python files below a folder without bytecode, in a fixed order."""
    found = sorted(str(path) for path in Path(folder).rglob("*.py"))
    return [path for path in found if not Path(importlib.util.cache_from_source(path)).exists()]


def compile_one(path):
    """Compile one file; templates and files for other Pythons that do not parse are no error."""
    warnings.simplefilter("ignore")
    try:
        py_compile.compile(path, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    except (py_compile.PyCompileError, UnicodeDecodeError):
        return 0
    return 1


def main(folder):
    """Compile all; returns the number of files compiled."""
    with ProcessPoolExecutor() as pool:
        return sum(pool.map(compile_one, sources(folder), chunksize=64))


if __name__ == "__main__":
    print("compiled", main(sys.argv[1]), "files")
