#!/bin/sh
# Compiles Horovod against the framework in /opt/venv, with MPI and gloo; the source is checked against the lock's hash.
# usage: build.sh FRAMEWORK LOCK FOLDER   (FRAMEWORK: pytorch or tensorflow)
set -eu
framework=$1
lock=$2
folder=$3
# shellcheck source=docker/scripts/python-packages/package-index.sh
. /scripts/python-packages/package-index.sh

mkdir -p "$folder" /tmp/horovod
grep -q '^horovod==' "$lock" || exit 0
cd /tmp/horovod
python() { PYTHONPATH=$(echo /opt/venv/lib/python3*/site-packages) PATH=/usr/bin:/bin:/opt/venv/bin /usr/bin/python3 "$@"; }

python -m pip download -q --no-deps --no-build-isolation --no-binary :all: --require-hashes -r "$lock" -d .
tar --strip-components=1 -xzf horovod-*.tar.gz
# 0.28.1 is the last release. The headers of today's frameworks are C++20; its build asks for C++14.
sed -i 's/CMAKE_CXX_STANDARD 1[47]/CMAKE_CXX_STANDARD 20/' CMakeLists.txt horovod/torch/CMakeLists.txt \
    horovod/tensorflow/CMakeLists.txt
# Its XLA kernels include headers that TensorFlow's wheel no longer has; everything else works without them.
sed -i '/xla_mpi_ops\.cc/d' horovod/tensorflow/CMakeLists.txt

case $framework in
    pytorch) export HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 ;;
    tensorflow) export HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 ;;
    *) echo "$framework: expected pytorch or tensorflow" >&2 && exit 64 ;;
esac
MAKEFLAGS="-j$(nproc)"
# Times in wheels begin in 1980. Debug information is 97% of what is compiled.
export SOURCE_DATE_EPOCH=315532800 LDFLAGS=-s
export MAKEFLAGS HOROVOD_WITH_GLOO=1 HOROVOD_WITH_MPI=1 HOROVOD_WITHOUT_MXNET=1
python -m pip wheel -q --no-deps --no-build-isolation --no-cache-dir . -w "$folder" >/tmp/horovod.log 2>&1 || {
    grep -E 'error|Error' /tmp/horovod.log | head -20
    tail -20 /tmp/horovod.log
    exit 1
}
