#!/bin/sh
# The end of every step that installs Debian packages: what no image keeps goes, and two builds are alike.
# usage: finish.sh
set -eu
/usr/bin/python3 -I -S /scripts/prune/prune.py /scripts/os-packages/prune.txt
# A container needs no program that gives its caller the rights of another user.
find / -xdev -type f -perm /6000 -exec chmod ug-s {} +
/usr/bin/python3 -I -S /scripts/clamp/clamp.py
