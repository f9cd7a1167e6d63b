#!/bin/sh
# Adds Debian packages to a released image, in their recorded versions while a mirror has them. Says what of the image's own
# gets another version by it, and refuses what would take a package away.
# usage: add-debian.sh PACKAGE...
set -eu
there() { dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Version}\n' | awk '$1 == "ii" { print $2, $3 }'; }

before=$(there)
/scripts/os-packages/install.sh "$@"
there >/tmp/after
echo "$before" | awk -v added="$*" 'NR == FNR { now[$1] = $2; next }
    !($1 in now) { printf "debian: %s needs %s of the released image removed: choose other os_packages\n", added, $1; gone = 1; next }
    now[$1] != $2 { printf "debian: %s %s in the released image, %s installed for %s\n", $1, $2, now[$1], added }
    END { exit gone }' /tmp/after -
/scripts/os-packages/finish.sh
