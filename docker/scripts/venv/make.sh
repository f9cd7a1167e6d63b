#!/bin/sh
# Makes the empty virtual environment that all Python packages of an image go into.
# usage: make.sh [PYTHON_VERSION]   (as in 3.11: refuse another Python)
set -eu
found=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
version=${1:-$found}
if [ "$found" != "$version" ]; then
    echo "the base image's Python is $found, the buildspec says $version: choose another base or another python" >&2
    exit 68
fi
# pip comes with the lock.
/usr/bin/python3 -m venv --without-pip /opt/venv
