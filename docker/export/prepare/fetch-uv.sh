#!/bin/sh
# Downloads uv by its hash and unpacks its program.
# usage: fetch-uv.sh LOCK FOLDER
set -eu
lock=$1
folder=$2
# shellcheck source=docker/scripts/python-packages/package-index.sh
. /scripts/python-packages/package-index.sh

work=$(mktemp -d)
/usr/bin/python3 -m pip download -q --no-deps --require-hashes --only-binary :all: --no-cache-dir -d "$work" -r "$lock"
/usr/bin/python3 -m zipfile -e "$work"/uv-*.whl "$work"
mkdir -p "$folder"
cp "$work"/uv-*.data/scripts/uv "$folder/uv"
chmod 755 "$folder/uv"
rm -r "$work"
