#!/bin/sh
# Registers the GPU client of PyTorch/XLA, in images whose lock has its plug-in.
set -eu
site=$(echo /opt/venv/lib/python3.*/site-packages)
[ -d "$site/jax_plugins/xla_cuda12" ] || exit 0

info=$site/dlc_xla_cuda-1.dist-info
mkdir "$info"
cp "$(dirname "$0")/dlc_xla_cuda.py" "$site/"
printf 'Metadata-Version: 2.1\nName: dlc-xla-cuda\nVersion: 1\nLicense: Apache-2.0\n' >"$info/METADATA"
printf '[torch_xla.plugins]\nCUDA = dlc_xla_cuda:CudaPlugin\n' >"$info/entry_points.txt"
printf '%s,,\n' dlc_xla_cuda.py dlc_xla_cuda-1.dist-info/METADATA dlc_xla_cuda-1.dist-info/entry_points.txt \
    dlc_xla_cuda-1.dist-info/RECORD >"$info/RECORD"
