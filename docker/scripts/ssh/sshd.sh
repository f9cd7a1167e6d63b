#!/bin/sh
# Starts OpenSSH's sshd with the host key that it needs and no image holds: the job's own key if the job has one, since its
# hosts know that key, else a key that is made now.
folder=/run/sshd job_key=/root/.ssh/id_rsa new_key=/etc/ssh/ssh_host_ed25519_key
# /run may be empty in a container that is given one.
[ -d "$folder" ] || mkdir "$folder"
if [ -r "$job_key" ]; then
    set -- -h "$job_key" "$@"
elif [ ! -e "$new_key" ] && [ -w /etc/ssh ]; then
    ssh-keygen -q -t ed25519 -N '' -C '' -f "$new_key"
fi
exec /usr/sbin/sshd.openssh "$@"
