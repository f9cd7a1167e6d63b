#!/bin/sh
# Downloads the wheels that are on an index of their own, by the lock's hashes. A wheel is looked for in the user's own
# folder, then on the user's indexes, then on the index that the buildspec names.
# usage: fetch-wheels.sh LOCKS OWN FOLDER "NAME=ADDRESS..."   (LOCKS/NAME/*.txt: the lock of one package each)
set -eu
locks=$1
own=$2
folder=$3
indexes=$4
# shellcheck source=docker/scripts/python-packages/package-index.sh
. /scripts/python-packages/package-index.sh
mkdir -p "$folder"

# address_of WORD: uv lets an index have a name, as in NAME=ADDRESS.
address_of() {
    case ${1%%=*} in
        *://* | "$1") echo "$1" ;;
        *) echo "${1#*=}" ;;
    esac
}

# download LOCK VARIABLE=VALUE...: with these settings of pip. Addresses may hold passwords, so they are no arguments of it.
download() {
    lock=$1
    shift
    env PIP_CONFIG_FILE=/dev/null PIP_EXTRA_INDEX_URL= "$@" /usr/bin/python3 -m pip download -q --no-deps --require-hashes \
        --only-binary :all: --no-input --no-cache-dir --retries 2 -d "$folder" -r "$lock"
}

# Mirrors inside a company often use http; the lock's hashes protect what comes from them.
trusted_host() {
    case $1 in
        http://*) echo "$1" | sed -e 's,^http://,,' -e 's,/.*,,' -e 's,.*@,,' -e 's,:.*,,' ;;
    esac
}

fetch() {
    [ -z "$(ls "$own"/*.whl 2>/dev/null)" ] || ! download "$1" PIP_NO_INDEX=1 PIP_FIND_LINKS="$own" || return 0
    for word in ${PIP_EXTRA_INDEX_URL:-} ${PIP_INDEX_URL:-} "$2"; do
        address=$(address_of "$word")
        [ -n "$address" ] || continue
        download "$1" PIP_INDEX_URL="$address" PIP_TRUSTED_HOST="$(trusted_host "$address")" && return 0
    done
    return 1
}

for index in $indexes; do
    name=${index%%=*}
    for lock in "$locks/$name"/*.txt; do
        fetch "$lock" "${index#*=}" && continue
        package=$(basename "$lock" .txt)
        echo "$package: no wheel with the lock's hash in own/wheels, on your indexes or on the index $name:" \
            "name a mirror of it with --build-arg INDEXES=$name=ADDRESS" >&2
        exit 1
    done
done
