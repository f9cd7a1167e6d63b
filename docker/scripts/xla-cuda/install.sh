#!/bin/sh
# Registers the GPU client of PyTorch/XLA, in images whose lock has its plug-in.
set -eu
from=$(cd "$(dirname "$0")" && pwd)/dlc_xla_cuda
site=$(echo /opt/venv/lib/python3.*/site-packages)
[ -d "$site/jax_plugins/xla_cuda12" ] || exit 0

cd "$site"
info=dlc_xla_cuda-1.dist-info
mkdir "$info"
cp -r "$from" .
printf 'Metadata-Version: 2.1\nName: dlc-xla-cuda\nVersion: 1\nLicense: Apache-2.0\n' >"$info/METADATA"
printf '[torch_xla.plugins]\nCUDA = dlc_xla_cuda.plugin:CudaPlugin\n' >"$info/entry_points.txt"
printf '%s,,\n' dlc_xla_cuda/*.py "$info/METADATA" "$info/entry_points.txt" "$info/RECORD" >"$info/RECORD"
