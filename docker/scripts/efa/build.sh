#!/bin/sh
# Makes the Debian packages of the EFA software that Debian does not have, from the source that the buildspec names.
# usage: build.sh SOURCE VERSION SOFTWARE FRAMEWORK_LOCK FOLDER   (SOURCE: none, distro, source or installer)
set -eu
source=$1
version=$2
software=$3
framework_lock=$4
folder=$5

mkdir -p "$folder"
case $source in
    none | distro) ;;
    source) /scripts/efa/plugin.sh "$version" "$software" "$framework_lock" "$folder" ;;
    installer) /scripts/efa/installer.sh "$version" "$software" "$folder" ;;
    *) echo "$source: expected none, distro, source or installer" >&2 && exit 64 ;;
esac
