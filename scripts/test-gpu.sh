#!/bin/sh
# Runs tests/gpu inside an image on the GPUs of this host; pytest is mounted beside the image's packages, not put into it.
# usage: test-gpu.sh IMAGE_ID [GPUS]   (GPUS as docker run has them, such as all or device=0; "" runs without any)
set -eu
cd "$(dirname "$0")/.."
image=$1
gpus=${2-all}

.venv/bin/dlc build "$image" >/dev/null
ref=$(.venv/bin/dlc show "$image" --ref)
variables=$(.venv/bin/dlc engine env)
eval "$variables"

# pytest for the Python of the image: -py39 is 3.9.
python=$(expr "$image" : '.*-py\([0-9]\)').$(expr "$image" : '.*-py[0-9]\([0-9]*\)$')
pytest=$(scripts/image-pytest.sh "$python")

# At the end of the path, so that the image's own packages come first. Their plug-ins for pytest are switched off.
start='import sys; sys.path.append("/pytest"); import pytest; sys.exit(pytest.main(sys.argv[1:]))'
# Ranks on one host talk through shared memory, of which Docker gives 64 MB.
docker run --rm ${gpus:+--gpus "$gpus"} --shm-size 1g --env PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 \
    --volume "$(pwd)/tests/gpu:/tests/gpu:ro" --volume "$pytest:/pytest:ro" --volume "$(pwd)/build/gpu:/report" \
    "$ref" python -B -c "$start" /tests/gpu --junitxml="/report/$image.xml" || code=$?
[ "${code:-0}" -ge 125 ] || echo "report: build/gpu/$image.xml"  # 125: docker run itself failed, and said why
exit "${code:-0}"
