#!/bin/sh
# Installs Debian packages and leaves nothing but them: no lists, no logs, no caches.
# Takes the versions that /scripts/debian/versions.txt, where it is, records for this release while its mirror has them, and
# says what differs.
# usage: install.sh PACKAGE...
set -eu
[ $# -gt 0 ] || exit 0

# The epoch: /etc/shadow has the day on which a package's user was made.
export DEBIAN_FRONTEND=noninteractive SOURCE_DATE_EPOCH=315532800 LC_ALL=C
options="-q -o Acquire::Retries=3 -o Binary::apt-get::APT::Keep-Downloaded-Packages=true"
if [ -s /scripts/ca/ca.pem ]; then
    options="$options -o Acquire::https::CAInfo=/scripts/ca/ca.pem"
fi
work=$(mktemp -d)

# The list is of Debian; a base that the user names may be another distribution.
recorded() {
    grep -q '^ID=debian$' /etc/os-release && [ -e /scripts/debian/versions.txt ] || return 0
    sed -e '/^#/d' -e 's/=/ /' /scripts/debian/versions.txt
}

# One apt preference for each recorded version that can still be had: a version that is gone would hold back a package
# of the base that its newer neighbours need newer.
preferences() {
    recorded >"$work/recorded"
    cut -d' ' -f1 "$work/recorded" | xargs -r apt-cache madison 2>/dev/null | awk '{ print $1, $3 }' >"$work/available"
    awk 'NR == FNR { there[$0]; next } $0 in there {
        printf "Package: %s\nPin: version %s\nPin-Priority: 1001\n\n", $1, $2
    }' "$work/available" "$work/recorded"
}

# One line for each package that is not there as recorded.
differences() {
    [ -s "$work/recorded" ] || return 0
    dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Version}\n' | awk 'NR == FNR { version[$1] = $2; next }
        $1 != "ii" { next }
        !($2 in version) { printf "debian: %s not recorded, %s installed\n", $2, $3; next }
        version[$2] != $3 { printf "debian: %s %s recorded, %s installed\n", $2, version[$2], $3 }' "$work/recorded" -
}

# The words of $options are separate arguments.
# shellcheck disable=SC2086
apt-get $options update
preferences >"$work/preferences"
# shellcheck disable=SC2086
apt-get $options -o Dir::Etc::Preferences="$work/preferences" -y --no-install-recommends --allow-downgrades install "$@"
differences

# Debian compiles the standard library with a random seed of hashes, and before Python 3.11 bytecode has sets in their
# order: what was just compiled is compiled again, with a fixed seed.
for python in /usr/bin/python3.9 /usr/bin/python3.10; do
    [ -x "$python" ] || continue
    find /usr/lib/python3 "/usr/lib/${python##*/}" -name '*.pyc' -newer "$work/preferences" |
        sed 's|/__pycache__/\([^/]*\)\.cpython-[0-9]*\.pyc$|/\1.py|' | sort |
        PYTHONHASHSEED=0 "$python" -s -S -m compileall -q -f --invalidation-mode unchecked-hash -i -
done
rm -r "$work"

# What carries a time or a former state would make two builds differ.
# Host keys that sshd makes at its installation: a job makes its own at its start.
rm -f /etc/ssh/ssh_host_*
rm -rf /var/log/apt /var/log/dpkg.log /var/log/alternatives.log /var/log/bootstrap.log \
    /var/cache/ldconfig/aux-cache /var/cache/debconf/*-old /var/lib/dpkg/*-old
