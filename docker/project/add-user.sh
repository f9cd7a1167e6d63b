#!/bin/sh
# Makes a user with a home folder and a group of the same name and number.
# usage: add-user.sh NAME UID
set -eu
for kind in passwd group; do
    for key in "$1" "$2"; do
        if found=$(getent "$kind" "$key"); then
            echo "user $1 ($2): the image has this in /etc/$kind already: $found" >&2
            exit 1
        fi
    done
done
# The epoch: /etc/shadow has the day on which a user was made.
export SOURCE_DATE_EPOCH=315532800
groupadd --gid "$2" "$1"
useradd --no-log-init --create-home --gid "$2" --uid "$2" --shell /bin/bash "$1"
chown "$1:$1" /opt/ml
