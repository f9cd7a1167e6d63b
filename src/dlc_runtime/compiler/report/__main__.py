"""`python -m dlc_runtime.compiler.report FOLDER`: merges the reports in a folder anew, also those of killed ranks."""

from __future__ import annotations

import os
import sys

from dlc_runtime.compiler.report import merge

if __name__ == "__main__":
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        sys.exit("usage: python -m dlc_runtime.compiler.report FOLDER (such as /opt/ml/output/data/compiler)")
    if not merge.merge_folder(sys.argv[1], with_page=True)["ranks"]:
        sys.exit(f"{sys.argv[1]}: expected rank-*.json, found none")
    sys.stdout.write(os.path.join(sys.argv[1], merge.PAGE) + "\n")
