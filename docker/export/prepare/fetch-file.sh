#!/bin/sh
# Downloads a file by its hash, into FOLDER under the name `file`.
# usage: fetch-file.sh "SHA256 ADDRESS" FOLDER
set -eu
hash=${1%% *}
address=${1#* }
folder=$2
# shellcheck source=docker/scripts/python-packages/package-index.sh
. /scripts/python-packages/package-index.sh

mkdir -p "$folder"
/usr/bin/python3 -I - "$address" "$folder/file" <<'PROGRAM'
import shutil, sys, urllib.request
with urllib.request.urlopen(sys.argv[1], timeout=180) as answer, open(sys.argv[2], "wb") as file:
    shutil.copyfileobj(answer, file)
PROGRAM
found=$(sha256sum "$folder/file" | cut -d' ' -f1)
if [ "$found" != "$hash" ]; then
    echo "$address: expected sha256 $hash, found $found" >&2
    exit 1
fi
