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
