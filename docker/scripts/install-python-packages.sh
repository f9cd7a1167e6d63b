#!/bin/sh
# Installs a hashed lock, and wheels built in an earlier stage, into /opt/venv.
# usage: install-python-packages.sh LOCK [FOLDER_OF_WHEELS]
set -eu
lock=$1
built=${2:-}
# shellcheck source=docker/scripts/package-index.sh
. /scripts/package-index.sh

install() { /tools/uv pip install --python /opt/venv/bin/python --no-deps --no-build "$@"; }

install --require-hashes -r "$lock"
if [ -n "$built" ] && [ -n "$(ls "$built")" ]; then
    install "$built"/*.whl
fi
/usr/bin/python3 -I -S /scripts/prune.py /scripts/prune.txt
/usr/bin/python3 -I -S /scripts/compile-bytecode.py /opt/venv
