#!/bin/sh
# Builds wheels of packages that publish only their source, with the distribution's own pip, setuptools and compiler.
# The source is checked against the lock's hashes, and nothing else is fetched.
# usage: build.sh LOCK FOLDER
set -eu
lock=$1
folder=$2
# shellcheck source=docker/scripts/python-packages/package-index.sh
. /scripts/python-packages/package-index.sh

mkdir -p "$folder"
grep -q '==' "$lock" || exit 0
# Times in wheels begin in 1980. Debug information would have the path of a temporary folder.
export SOURCE_DATE_EPOCH=315532800 LDFLAGS=-s
/usr/bin/python3 -m pip wheel -q --no-deps --no-build-isolation --no-cache-dir --require-hashes -r "$lock" -w "$folder"
