#!/bin/sh
# Installs the EFA software: packages that were made in an earlier stage, and Debian's.
# usage: install.sh FOLDER_OF_PACKAGES [DEBIAN_PACKAGE]...
set -eu
folder=$1
shift
for file in "$folder"/*.deb; do
    [ -e "$file" ] && set -- "$@" "$file"
done
/scripts/os-packages/install.sh "$@"
