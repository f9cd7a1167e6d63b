#!/bin/sh
# Installs a hashed lock, and wheels built in earlier stages, into /opt/venv.
# usage: install-python-packages.sh [--whole] LOCK [FOLDER_OF_WHEELS]...
# --whole: for compiling against; nothing is pruned and no bytecode is made.
set -eu
whole=
if [ "$1" = --whole ]; then
    whole=yes
    shift
fi
lock=$1
shift
# shellcheck source=docker/scripts/package-index.sh
. /scripts/package-index.sh

install() { /tools/uv pip install --python /opt/venv/bin/python --no-deps --no-build "$@"; }

install --require-hashes -r "$lock"
for folder in "$@"; do
    [ -z "$(ls "$folder")" ] || install "$folder"/*.whl
done
[ -z "$whole" ] || exit 0
/usr/bin/python3 -I -S /scripts/prune.py /scripts/prune.txt
/usr/bin/python3 -I -S /scripts/compile-bytecode.py /opt/venv
