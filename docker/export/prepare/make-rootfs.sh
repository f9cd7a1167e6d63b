#!/bin/sh
# Makes a minimal Debian below /rootfs, of the versions that /debian/versions.txt records while the mirror has them.
# usage: make-rootfs.sh SUITE ARGUMENTS MIRROR SECURITY_MIRROR   (ARGUMENTS of mmdebstrap; its own mirrors if both are empty)
set -eu
suite=$1
arguments=$2
mirror=$3
security=$4
recorded=/tmp/recorded

wanted=$(echo " $arguments" | sed -n 's/.* --architectures=\([a-z0-9]*\).*/\1/p')
wanted=${wanted:-amd64}
if [ "$(dpkg --print-architecture)" != "$wanted" ]; then
    echo "this image is for linux/$wanted, the build is for $(dpkg --print-architecture): add --platform linux/$wanted" >&2
    exit 64
fi
case ${mirror:+mirror}${security:+security} in
    mirror | security)
        echo "DEBIAN_MIRROR=$mirror DEBIAN_SECURITY=$security: expected both or neither, found one: add the other --build-arg" >&2
        exit 64
        ;;
esac
if [ -s /ca/ca.pem ]; then
    mkdir -p /etc/ssl/certs
    cp /ca/ca.pem /etc/ssl/certs/ca-certificates.crt
fi
export DEBIAN_FRONTEND=noninteractive LC_ALL=C SOURCE_DATE_EPOCH=315532800
apt-get -q -o Acquire::Retries=3 update
apt-get -q -o Acquire::Retries=3 -y --no-install-recommends install mmdebstrap
[ ! -s /ca/ca.pem ] || cp /ca/ca.pem /etc/ssl/certs/ca-certificates.crt

# Above 1000: apt takes the version even if it is older than another.
sed -e '/^#/d' -e '/^$/d' /debian/versions.txt |
    awk -F= '{ printf "Package: %s\nPin: version %s\nPin-Priority: 1001\n\n", $1, $2 }' >"$recorded"

# They are quoted as a shell reads them.
eval "set -- $arguments"
# mmdebstrap gives the hook its folder.
# shellcheck disable=SC2016
set -- "--setup-hook=copy-in $recorded /etc/apt/preferences.d" '--customize-hook=rm "$1/etc/apt/preferences.d/recorded"' \
    "$@" "$suite" /tmp/rootfs.tar
if [ -n "$mirror" ]; then
    # The lists of a day that is past are out of date.
    case $mirror$security in
        */[0-9]*T[0-9]*Z*) options='[check-valid-until=no] ' ;;
        *) options= ;;
    esac
    set -- "$@" "deb $options$mirror $suite main" "deb $options$mirror $suite-updates main" \
        "deb $options$security $suite-security main"
fi
mmdebstrap "$@"

mkdir /rootfs
# A builder without rights of its own can make no devices; containers get theirs from the engine.
if mknod /tmp/device c 1 3 2>/dev/null; then
    tar -x --numeric-owner -f /tmp/rootfs.tar -C /rootfs
else
    tar -x --numeric-owner -f /tmp/rootfs.tar -C /rootfs --exclude='./dev/*'
fi
rm -f /tmp/rootfs.tar /tmp/device
