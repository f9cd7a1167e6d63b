#!/bin/sh
# Compiles Horovod against a framework, with MPI and gloo, and for GPUs with NCCL; everything is checked against the hashes of their locks.
# usage: build.sh FRAMEWORK LOCKS SOURCE_WHEELS LOCK FOLDER
# FRAMEWORK: pytorch or tensorflow; LOCKS: a folder with cuda.txt and framework.txt
set -eu
framework=$1
source_wheels=$3
lock=$4
folder=$5
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=docker/scripts/python-packages/package-index.sh
. /scripts/python-packages/package-index.sh

mkdir -p "$folder" /tmp/horovod
framework_lock=/tmp/framework.txt
cat "$2/cuda.txt" "$2/framework.txt" >"$framework_lock"
grep -q '^horovod==' "$lock" || exit 0
cd /tmp/horovod

# The framework as it is before anything is pruned, as links into the installer's cache: it takes neither time nor room.
# What is compiled records where it is: so it is where it will be in the image.
installed=$(mktemp -d /root/.cache/uv/horovod.XXXXXX)
trap 'rm -rf "$installed"' EXIT
site=$(echo /opt/venv/lib/python3*/site-packages)
rm -rf "$site"
ln -s "$installed" "$site"
install_into() {
    /scripts/uv pip install --link-mode hardlink --python /usr/bin/python3 --no-deps --no-build --target "$@"
}
install_into "$installed" --require-hashes -r "$framework_lock"
# What of it has no wheel was built here.
[ -z "$(ls "$source_wheels")" ] || install_into "$installed" "$source_wheels"/*.whl
python() { PYTHONPATH=$site PATH=/usr/bin:/bin:/opt/venv/bin /usr/bin/python3 "$@"; }

python -m pip download -q --no-deps --no-build-isolation --no-binary :all: --require-hashes -r "$lock" -d .
tar --strip-components=1 -xzf horovod-*.tar.gz
# 0.28.1 is the last release. The headers of today's frameworks are C++20, its build asks for C++14 as the oldest do.
if ! grep -qE '^(torch==1|tensorflow(-cpu)?==2\.[0-9]\.)' "$framework_lock"; then
    sed -i 's/CMAKE_CXX_STANDARD 1[47]/CMAKE_CXX_STANDARD 20/' CMakeLists.txt horovod/torch/CMakeLists.txt \
        horovod/tensorflow/CMakeLists.txt
fi
# With TF_USE_LEGACY_KERAS the Keras of TensorFlow is another than the package of that name, whose backend it would take.
if grep -qE '^tensorflow(-cpu)?==2\.(1[6-9]|[2-9][0-9])\.' "$framework_lock"; then
    sed -i 's/^    from keras import backend as K$/    K = keras.backend/' horovod/tensorflow/keras/__init__.py \
        horovod/tensorflow/keras/callbacks.py
fi
# TensorFlow 2.20 and later export no AsGpuStreamValue: it asks a stream for CUDA's own.
if grep -qE '^tensorflow==2\.[2-9][0-9]\.' "$framework_lock"; then
    sed -i -e '/^GpuStreamHandle AsGpuStreamValue(Stream\* stream);$/d' -e '/^#endif.*TENSORFLOW_VERSION >= 2011000000$/a \
namespace stream_executor::gpu {\
inline GpuStreamHandle AsGpuStreamValue(Stream* stream) {\
  return static_cast<GpuStreamHandle>(stream->platform_specific_handle().stream);\
}\
}' horovod/tensorflow/mpi_ops.cc
fi
# PyTorch's training API in C++, which it includes and does not use, takes the compiler half of the time for its bindings.
if grep -q '^torch==2\.' "$framework_lock"; then
    sed -i -e 's|<torch/extension\.h>|<torch/types.h>|' -e '/<torch\/torch\.h>/d' horovod/torch/adapter_v2.h
    sed -i -e 's|<torch/extension\.h>|<torch/csrc/utils/pybind.h>|' -e 's|<torch/torch\.h>|<torch/types.h>|' \
        horovod/torch/mpi_ops_v2.cc
fi
# A dozen sources at once, so that their headers are read once: 60 of 140 CPU seconds less. TensorFlow gets a gloo of its own
# C++ standard; the other one is compiled only for those that ask for it.
gloo=third_party/gloo/gloo/CMakeLists.txt
sed -i '1i set(CMAKE_UNITY_BUILD ON)\nset(CMAKE_UNITY_BUILD_BATCH_SIZE 13)' $gloo horovod/torch/CMakeLists.txt \
    horovod/tensorflow/CMakeLists.txt
alone() { echo "set_source_files_properties(\"\${PROJECT_SOURCE_DIR}/$1\" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)"; }
alone gloo/allreduce_local.cc >>$gloo # allreduce.cc has a ReductionFunction of its own
# cpuid.h of GCC 10 may be included once.
alone horovod/common/half.cc | tee -a horovod/torch/CMakeLists.txt >>horovod/tensorflow/CMakeLists.txt
sed -i 's/add_subdirectory(third_party\/gloo)/add_subdirectory(third_party\/gloo EXCLUDE_FROM_ALL)/' CMakeLists.txt
# Its XLA kernels include headers that TensorFlow's wheel no longer has; everything else works without them.
sed -i '/xla_mpi_ops\.cc/d' horovod/tensorflow/CMakeLists.txt
# An assignment to a constant, in a function that nobody calls, is an error from GCC 14 on.
sed -i '/^ *count_ = other\.count_;$/d' third_party/flatbuffers/include/flatbuffers/stl_emulation.h

# For GPUs: NCCL's and CUDA's wheels of the framework, and kernels that cuda.sh compiles. Its build looks for a whole CUDA
# with nvcc; what it needs of one is in cuda.cmake instead.
cuda=$(sed -n 's/^nvidia-nccl-cu\([0-9]*\)==.*/\1/p' "$framework_lock")
without=
case $cuda in
    12) command -v clang++-19 >/dev/null || without="cuda_build_packages has no clang-19, which compiles its kernels for CUDA 12" ;;
    13) ;;
    *) without="its kernels can be compiled for CUDA 12 and 13 only" ;;
esac
if [ -z "$without" ]; then
    tools=$(mktemp -d /root/.cache/uv/horovod.XXXXXX)
    trap 'rm -rf "$installed" "$tools"' EXIT
    install_into "$tools" --require-hashes -r "$here/cuda$cuda.txt"
    export CUDA_HOME=/tmp/horovod-cuda HOROVOD_GPU_OPERATIONS=NCCL HOROVOD_NCCL_LINK=SHARED HOROVOD_WITHOUT_NVTX=1
    abi=1
    if [ "$framework" = pytorch ]; then abi=$(python -c 'import torch; print(int(torch.compiled_with_cxx11_abi()))'); fi
    "$here/cuda.sh" "$cuda" "$site" "$tools" /tmp/horovod "$CUDA_HOME" "$abi"
    sed -i -e '/^check_language(CUDA)$/d' -e '/^    find_package(CUDAToolkit\( REQUIRED\)\?)$/d' \
        -e '/add_subdirectory(horovod\/common\/ops\/cuda)/d' -e "s|^# CUDA and ROCM$|include($here/cuda.cmake)|" CMakeLists.txt
elif grep -q '^nvidia-\|^torch==1[.0-9]* ' "$framework_lock"; then
    # A framework with CUDA, in wheels of NVIDIA's or in its own: the launcher refuses Horovod on GPUs with this reason.
    printf '"""%s"""\n' "$without" >horovod/without_nccl.py
fi

case $framework in
    pytorch) export HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 ;;
    tensorflow) export HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 ;;
    *) echo "$framework: expected pytorch or tensorflow" >&2 && exit 64 ;;
esac
# It uses names of the standard library without including them, which compilers from GCC 13 on do not do for it.
# Where a link leads is not recorded: the installer's cache has another name each time.
export CXXFLAGS="-include cstdint -include string -fno-canonical-system-headers"
MAKEFLAGS="-j$(nproc)"
# Debug information is 97% of what would be compiled; the rest is the same without it.
sed -i "s/'RelWithDebInfo'/'Release'/" setup.py
# Times in wheels begin in 1980.
export SOURCE_DATE_EPOCH=315532800 LDFLAGS=-s
export MAKEFLAGS HOROVOD_WITH_GLOO=1 HOROVOD_WITH_MPI=1 HOROVOD_WITHOUT_MXNET=1
# Not through pip: that of Debian 11 compiles in a random folder, whose name would be recorded.
python setup.py -q bdist_wheel -d "$folder" >/tmp/horovod.log 2>&1 || {
    grep -E ' error: |Error:' /tmp/horovod.log | head -20
    tail -20 /tmp/horovod.log
    exit 1
}
