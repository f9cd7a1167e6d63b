#!/bin/sh
# Prints a folder with pytest for one Python, to be mounted beside an image's own packages; makes it where it is missing.
# usage: image-pytest.sh PYTHON   (as in 3.9)
set -eu
cd "$(dirname "$0")/.."
folder=build/pytest-$1
if [ ! "$folder/ready" -nt tests/gpu/requirements.txt ]; then
    rm -rf "$folder"
    .venv/bin/uv pip install -q --target "$folder" --python-version "$1" --no-build --require-hashes \
        -r tests/gpu/requirements.txt >&2
    touch "$folder/ready"
fi
echo "$(pwd)/$folder"
