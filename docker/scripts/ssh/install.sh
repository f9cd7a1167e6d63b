#!/bin/sh
# Lets sshd start by itself, as an operator of a cluster starts it, and ssh know the hosts of its job. No key is made here.
# usage: install.sh   (in an image without sshd it does nothing)
set -eu
[ -x /usr/sbin/sshd ] || exit 0
here=$(dirname "$0")
# A package of sshd that is installed later goes to the same place.
dpkg-divert --quiet --local --rename --divert /usr/sbin/sshd.openssh --add /usr/sbin/sshd
rm -f /var/lib/dpkg/diversions-old
install -m 755 "$here/sshd.sh" /usr/sbin/sshd
install -m 644 "$here/sshd.conf" /etc/ssh/sshd_config.d/dlc.conf
known=ssh
ssh -G -o KnownHostsCommand=none host >/dev/null 2>&1 || known=ssh-8.4
install -m 644 "$here/$known.conf" /etc/ssh/ssh_config.d/dlc.conf
# Where sshd keeps nothing, and without which it does not start.
install -d -m 755 /run/sshd
