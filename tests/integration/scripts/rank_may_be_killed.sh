#!/bin/sh
# For tests: a training host that outlives its rank: a signal that ends the rank is no failure of the host.
python "$(dirname "$0")/data_hosts.py" "$@" && exit
code=$?
[ $code -ge 128 ] || exit $code
echo "the rank was killed"
