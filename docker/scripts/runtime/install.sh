#!/bin/sh
# Lets the Python of a virtual environment import dlc_runtime, and arms the compiler where a job asks for it.
# usage: install.sh VENV ROOT   (what goes into the image is written below ROOT)
set -eu
for packages in "$1"/lib/python3*/site-packages; do
    mkdir -p "$2$packages"
    cp "$(dirname "$0")/dlc_runtime.pth" "$2$packages/"
done
