#!/bin/sh
# For tests: the data program ($SERVED) as a user's loop has it that starts it again whenever a signal ended it.
while true; do
    python "$(dirname "$0")/$SERVED" "$@"
    code=$?
    [ $code -ge 128 ] || exit $code
    echo "the data program was killed and starts again"
done
