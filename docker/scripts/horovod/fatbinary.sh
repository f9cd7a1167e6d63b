#!/bin/sh
# Calls CUDA 13's `fatbinary` in place of CUDA 12's, as clang knows it: clang's --image=profile=sm_90 is its
# --image3=kind=elf,sm=90. Without compression, which drivers older than it could not undo.
# Environment: FATBINARY, the path of the real one.
set -euf
for word; do
    shift
    case $word in
        --image=profile=compute_*) word=--image3=kind=ptx,sm=${word#*compute_} ;;
        --image=profile=sm_*) word=--image3=kind=elf,sm=${word#*sm_} ;;
    esac
    set -- "$@" "$word"
done
exec "$FATBINARY" --compress=false "$@"
