#!/bin/sh
# Installs what the tests need on this host besides Docker: an ssh server and client, and tini. Starts no service.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin

missing=''
while read -r program package; do
    command -v "$program" >/dev/null || missing="$missing $package"
done <<'PROGRAMS'
sshd openssh-server
ssh openssh-client
ssh-keygen openssh-client
tini tini
PROGRAMS

[ -z "$missing" ] && exit
# shellcheck disable=SC2086 # several names
.venv/bin/dlc packages $missing
