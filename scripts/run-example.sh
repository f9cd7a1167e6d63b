#!/bin/sh
# Trains the example of an image through its launcher, as a training platform would, and says where the model went.
# usage: run-example.sh IMAGE_ID
set -eu
cd "$(dirname "$0")/.."
image=$1
DLC=.venv/bin/dlc

"$DLC" build "$image" >/dev/null
framework=${image%%-*}
ref=$("$DLC" show "$image" --ref)
variables=$("$DLC" engine env)
eval "$variables"

# The folder that the platform would mount: configuration, code, and where the results go.
job=$(pwd)/build/example-$framework
rm -rf "$job"
mkdir -p "$job/input/config" "$job/code" "$job/model" "$job/output"
cp "examples/$framework/train.py" "$job/code/"
echo '{"sagemaker_program": "train.py"}' >"$job/input/config/hyperparameters.json"
echo '{"current_host": "algo-1", "hosts": ["algo-1"]}' >"$job/input/config/resourceconfig.json"

docker run --rm --network none -v "$job:/opt/ml" "$ref" train
echo "model:   $(ls -d "$job"/model/*)"
echo "metrics: $(ls -d "$job"/output/data/*)"
