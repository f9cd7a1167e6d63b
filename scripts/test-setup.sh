#!/bin/sh
# Installs what the tests need on this host besides Docker: tini.
set -eu
cd "$(dirname "$0")/.."

PATH=$PATH:/usr/sbin:/sbin command -v tini >/dev/null || .venv/bin/dlc packages tini
