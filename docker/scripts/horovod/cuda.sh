#!/bin/sh
# Makes a CUDA home to compile Horovod against, in a fixed place: headers and libraries of the framework's wheels under
# the names that compilers look for, and Horovod's own kernels, compiled.
# usage: cuda.sh MAJOR SITE_PACKAGES TOOLS SOURCES HOME ABI
# TOOLS: a folder with the packages of cudaMAJOR.txt
# ABI: _GLIBCXX_USE_CXX11_ABI of the framework, 0 for PyTorch up to 2.6; kernels name their types by std::string
set -eu
major=$1
site=$2
tools=$3
sources=$4
home=$5
abi=-D_GLIBCXX_USE_CXX11_ABI=$6
here=$(cd "$(dirname "$0")" && pwd)

# merge FOLDER...: links to all of their files in the last one; of files that are in several, the first is taken.
merge() {
    for last; do :; done
    mkdir -p "$last"
    for folder; do
        # By its version cp does or does not call it an error that a file is there.
        [ "$folder" = "$last" ] || cp -rsn "$folder/." "$last/" 2>/dev/null || true
    done
}

mkdir -p "$home/lib64"
merge "$site"/nvidia/*/include "$tools"/nvidia/*/include "$home/include"
for name in cudart nccl; do
    ln -s "$(ls -d "$site"/nvidia/*/lib/lib$name.so.*)" "$home/lib64/lib$name.so"
done

# Kernels see the headers of their compiler's own release alone.
kernels=$sources/horovod/common/ops/cuda
case $major in
    12)
        merge "$tools/nvidia/cuda_nvcc" "$tools/nvidia/cuda_runtime" "$tools/nvidia/cuda_cccl" "$home/tools"
        ln -s "$here/fatbinary.sh" "$home/tools/bin/fatbinary"
        # clang includes it always; it belongs to a library that no kernel here uses.
        : >"$home/tools/include/curand_mtgp32_kernel.h"
        for number in 60 70 75 80 90; do
            set -- "$@" "--offload-arch=sm_$number"
        done
        shift 6
        FATBINARY=$tools/nvidia/cu13/bin/fatbinary clang++-19 -x cuda --cuda-path="$home/tools" -std=c++17 -O3 -fPIC "$abi" \
            -Wno-unknown-cuda-version --no-cuda-include-ptx=all --cuda-include-ptx=sm_90 "$@" \
            -I"$kernels" -c "$kernels/cuda_kernels.cu" -o "$home/kernels.o"
        ;;
    13)
        for number in 75 80 90 100; do
            set -- "$@" -gencode "arch=compute_$number,code=sm_$number"
        done
        shift 6
        # Names of files that it makes on the way are recorded: by default they have the number of its process.
        "$tools/nvidia/cu13/bin/nvcc" -std=c++17 -O3 -Xcompiler -fPIC "$abi" --objdir-as-tempdir "$@" \
            -gencode "arch=compute_120,code=[sm_120,compute_120]" -I"$kernels" -c "$kernels/cuda_kernels.cu" -o "$home/kernels.o"
        ;;
    *) echo "CUDA $major: expected 12 or 13" >&2 && exit 64 ;;
esac
ar rcsD "$home/lib64/libhorovod_cuda_kernels.a" "$home/kernels.o"
