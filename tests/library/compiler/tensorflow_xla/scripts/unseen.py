"""Runs another script where XLA's programs cannot be seen, as with an older TensorFlow or on a GPU; argv: its own."""

import runpy
import sys

from dlc_runtime.compiler.tensorflow_xla import preparation

preparation.make_own_folder = lambda version: ""
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
