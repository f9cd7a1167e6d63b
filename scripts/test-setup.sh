#!/bin/sh
# Installs what the tests need on this host besides Docker: tini, and ip for networks of their own.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin

missing=''
command -v tini >/dev/null || missing=tini
command -v ip >/dev/null || missing="$missing iproute2"
# A list of words.
# shellcheck disable=SC2086
[ -z "$missing" ] || .venv/bin/dlc packages $missing

# With cgroup v1 all containers together have the weight of one process of this host, so trainings in them would starve
# beside the tests that run on the host.
weight=/sys/fs/cgroup/cpu/docker
if [ -w /sys/fs/cgroup/cpu/cpu.shares ] && mkdir -p "$weight"; then
    echo 8192 >"$weight/cpu.shares"
fi
