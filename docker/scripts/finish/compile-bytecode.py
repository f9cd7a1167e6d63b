"""Compiles every Python file below a folder that has no bytecode yet, so that imports are fast and builds repeat.

The bytecode carries a hash in place of a time (PEP 552, unchecked). What marshal writes also depends on what the same
process compiled before, and on the seed of string hashes: so a fresh process with a fixed seed compiles each portion
of a fixed list, and two builds give the same bytes on any number of cores. Files compiled in a lower layer are left
alone, so no byte is stored twice. Standard library only; run with the interpreter that will import them.
usage: compile-bytecode.py FOLDER [--small]

`--small` leaves out docstrings, asserts, and where in its line a call stands, which a traceback underlines: a fifteenth
of what the launcher and the library take. Lines and names stay. A file that holds only a docstring gets no bytecode:
Python compiles it faster than it opens another file, which would take a block of the disk.
"""

import ast
import importlib.util
import json
import os
import py_compile
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PORTION = 250  # files of one process at most; large, since each takes 50 ms to start
LEAST = 2  # portions, so that few files are compiled on two cores too
SMALL = "--small"


def sources(folder):
    """Python files below a folder without bytecode, in a fixed order."""
    found = sorted(str(path) for path in Path(folder).rglob("*.py"))
    return [path for path in found if not Path(importlib.util.cache_from_source(path)).exists()]


def is_docstring(source):
    """Return whether nothing else is in a file of ours."""
    body = ast.parse(source).body
    return len(body) == 1 and ast.get_docstring(ast.Module(body, [])) is not None


def compile_portion(paths, optimize):
    """Compile files in this process; templates and files for other Pythons that do not parse are no error."""
    warnings.simplefilter("ignore")
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    for path in paths:
        if optimize and is_docstring(Path(path).read_bytes()):
            continue
        place = importlib.util.cache_from_source(path, optimization="")  # where every Python looks, for small ones too
        try:
            py_compile.compile(path, place, doraise=True, optimize=optimize, invalidation_mode=mode)
        except (py_compile.PyCompileError, UnicodeDecodeError):
            continue


def start(paths, small):
    """Compile files in a process of their own; -I would ignore the seed."""
    argv = [sys.executable, "-S", "-s", *(("-X", "no_debug_ranges") if small else ()), __file__]
    portion = json.dumps([paths, 2 if small else 0])
    subprocess.run(argv, input=portion, text=True, env={"PYTHONHASHSEED": "0"}, check=True)


def main(folder, small):
    """Compile all; returns the number of files."""
    paths = sources(folder)
    size = min(PORTION, max(1, -(-len(paths) // LEAST)))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(lambda first: start(paths[first : first + size], small), range(0, len(paths), size)):
            pass
    return len(paths)


if __name__ == "__main__":
    if sys.argv[1:]:
        print("compiled", main(sys.argv[1], SMALL in sys.argv[2:]), "files")
    else:
        compile_portion(*json.load(sys.stdin))
