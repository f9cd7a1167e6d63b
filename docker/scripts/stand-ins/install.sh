#!/bin/sh
# Says that a package is there which another one contains: installers then put no second one over it.
# usage: install.sh NAME PROVIDER==VERSION [NAME PROVIDER==VERSION]...
set -eu
site=$(echo /opt/venv/lib/python3.*/site-packages)
while [ $# -gt 1 ]; do
    name=$1
    provider=$2
    shift 2
    version=${provider#*==}
    version=${version%%+*}
    folder=$(echo "$name" | tr - _)-$version.dist-info
    info=$site/$folder
    mkdir "$info"
    printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: Contained in %s\nRequires-Dist: %s\n' \
        "$name" "$version" "$provider" "$provider" >"$info/METADATA"
    printf 'dlc\n' >"$info/INSTALLER"
    printf '%s,,\n' "$folder/METADATA" "$folder/INSTALLER" "$folder/RECORD" >"$info/RECORD"
done
