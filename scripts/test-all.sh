#!/bin/sh
# Builds every image and runs every test that needs no GPU on it: those of `make test-images` together, then one image
# after the other. If the disk has no room for the next one, tested images are removed. The exit code is 1 if one failed.
# usage: test-all.sh GLOB...   (the images of `make test-images`)
set -eu
cd "$(dirname "$0")/.."
DLC=.venv/bin/dlc
NO_ROOM=22 # dlc's exit code for a disk that is full, or too small

make_room() {
    variables=$("$DLC" engine env)
    eval "$variables"
    for old in $tested; do
        docker image rm --force "$("$DLC" show "$old" --ref)" >/dev/null
    done
    docker builder prune --force >/dev/null
    echo "removed to make room: the build cache${tested:+ and}$tested"
    tested=''
}

build() {
    code=0
    "$DLC" build "$1" || code=$?
    [ "$code" = "$NO_ROOM" ] || return "$code"
    make_room
    "$DLC" build "$1"
}

failed='' others=''
tested=$("$DLC" list --ids "$@" | tr '\n' ' ')
for image in $("$DLC" list --ids); do
    case " $tested" in *" $image "*) ;; *) others="$others $image" ;; esac
done
{ make --silent test && make --silent test-images; } || failed=$tested
for image in $others; do
    echo "== $image"
    { build "$image" && "$DLC" test --all "$image"; } || failed="$failed $image"
    tested="$tested $image"
done
echo "images that failed:${failed:- none}"
[ -z "$failed" ]
