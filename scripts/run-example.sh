#!/bin/sh
# Trains the example of an image through its launcher, as SageMaker would, and says where the model went.
# usage: run-example.sh IMAGE_ID
set -eu
cd "$(dirname "$0")/.."
image=$1
DLC=.venv/bin/dlc

"$DLC" build "$image" >/dev/null
framework=${image%%-*}
results=$(pwd)/build/example-$framework
rm -rf "$results"

"$DLC" run "$image" "examples/$framework/train.py" --output "$results"
echo "model:   $(ls -d "$results"/model/*)"
echo "metrics: $(ls -d "$results"/output/*)"
