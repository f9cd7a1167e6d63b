#!/bin/sh
# Installs Debian packages and leaves nothing but them: no lists, no logs, no caches.
# usage: install.sh PACKAGE...
set -eu
[ $# -gt 0 ] || exit 0

# The epoch: /etc/shadow has the day on which a package's user was made.
export DEBIAN_FRONTEND=noninteractive SOURCE_DATE_EPOCH=315532800
options="-q -o Acquire::Retries=3 -o Binary::apt-get::APT::Keep-Downloaded-Packages=true"
if [ -s /run/secrets/ca ]; then
    options="$options -o Acquire::https::CAInfo=/run/secrets/ca"
fi

# The words of $options are separate arguments.
# shellcheck disable=SC2086
apt-get $options update
# shellcheck disable=SC2086
apt-get $options -y --no-install-recommends install "$@"

# What carries a time or a former state would make two builds differ.
# Host keys that sshd makes at its installation: a job makes its own at its start.
rm -f /etc/ssh/ssh_host_*
rm -rf /var/log/apt /var/log/dpkg.log /var/log/alternatives.log /var/log/bootstrap.log \
    /var/cache/ldconfig/aux-cache /var/cache/debconf/*-old /var/lib/dpkg/*-old
