#!/bin/sh
# Installs a hashed lock, and wheels built in earlier stages, into /opt/venv, which the first step makes.
# usage: install.sh LOCK [FOLDER_OF_WHEELS]...
set -eu
lock=$1
shift
# shellcheck source=docker/scripts/python-packages/package-index.sh
. /scripts/python-packages/package-index.sh

[ -e /opt/venv ] || /scripts/venv/make.sh

# Without the installer's own metadata: it has the times of local wheels.
install() {
    /scripts/uv pip install --python /opt/venv/bin/python --no-deps --no-build --no-installer-metadata "$@"
}

# uv keeps what it fetched, also a damaged file, and pages of the index. Before this fails, the index is asked anew.
install --require-hashes -r "$lock" || install --refresh --require-hashes -r "$lock"
for folder in "$@"; do
    [ -z "$(ls "$folder")" ] || install "$folder"/*.whl
done
