"""`python -m dlc_runtime.compiler.cache FOLDER FILE`: makes one file of a cache, and prints what a job names it by."""

from __future__ import annotations

import os
import sys

from dlc_runtime.compiler.cache import artifact
from dlc_runtime.compiler.cache.cache_folder import subfolders
from dlc_runtime.compiler.cache.machine import key_of

USAGE = """usage: python -m dlc_runtime.compiler.cache FOLDER FILE

Writes what DLC_COMPILE_CACHE=FOLDER holds for this image and machine into FILE, such as compiled.tar.gz, and prints the
line with which a job on another host of this kind begins: DLC_COMPILE_CACHE_ARTIFACT=FILE@sha256:..."""


def main(arguments: list[str]) -> None:
    if len(arguments) != 2 or not os.path.isdir(arguments[0]):
        sys.exit(USAGE)
    folder, file = arguments
    try:
        key = artifact.subfolder_to_pack(folder, subfolders(folder), key_of(os.environ))
        digest = artifact.pack(os.path.join(folder, key), key, file)
    except (artifact.ArtifactError, OSError) as fault:
        sys.exit(f"{fault}")
    sys.stdout.write(f"{artifact.ARTIFACT}={file}@sha256:{digest}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
