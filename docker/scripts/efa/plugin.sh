#!/bin/sh
# Compiles NCCL's plug-in for EFA (aws-ofi-nccl) against Debian's libfabric and the CUDA of the framework's lock, and
# makes a Debian package of it. NCCL finds it by its name in the loader's default folder.
# usage: plugin.sh VERSION SOURCE FRAMEWORK_LOCK FOLDER
set -eu
version=$1
source=$2
framework_lock=$3
folder=$4
# shellcheck source=docker/scripts/python-packages/package-index.sh
. /scripts/python-packages/package-index.sh
# The epoch, and a fixed path: what is compiled would have both.
export SOURCE_DATE_EPOCH=315532800
work=/tmp/efa
mkdir "$work"

[ -f "$source/configure.ac" ] || {
    echo "efa.context: expected the source of aws-ofi-nccl, found no configure.ac" >&2
    exit 65
}
awk '/^[^ #]/ { wanted = /^nvidia-cuda-(runtime|nvcc|crt)/ } wanted' "$framework_lock" >"$work/cuda.txt"
[ -s "$work/cuda.txt" ] || {
    echo "efa.source=source: expected nvidia-cuda-runtime in the framework's lock, for CUDA's headers, found none" >&2
    exit 65
}
/tools/uv pip install -q --python /opt/venv/bin/python --target "$work/wheels" --no-deps --no-build --require-hashes \
    -r "$work/cuda.txt"
# A toolkit as its configure script expects one. At run time CUDA is the framework's own, under the names that the
# plug-in asks for: a second one would not know the first one's memory.
runtime=$(find "$work/wheels" -name 'libcudart.so.*')
mkdir -p "$work/cuda/lib64"
find "$work/wheels" -name include -type d -exec cp -R {} "$work/cuda" ';'
ln -s "$runtime" "$work/cuda/lib64/libcudart.so"
[ -e "$work/cuda/include/crt/host_defines.h" ] || {
    echo "efa.source=source: expected CUDA's crt/host_defines.h from a package of the framework's lock, found none:" \
        "add nvidia-cuda-crt (CUDA 12: nvidia-cuda-nvcc-cu12) in CUDA's version to packages.framework" >&2
    exit 65
}
libraries=/usr/lib/$(gcc -print-multiarch)
packages=$(/opt/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$work/root$libraries/aws-ofi-nccl"
for name in libcudart.so "$(basename "$runtime")"; do
    ln -s "$packages${runtime#"$work/wheels"}" "$work/root$libraries/aws-ofi-nccl/$name"
done

cp -R "$source" "$work/source"
cd "$work/source"
# In a git checkout its build takes the version from git, and warnings for errors.
rm -rf .git
[ -e .release_version ] || echo "$version" >.release_version
{
    ./autogen.sh && ./configure --prefix=/usr --libdir="$libraries" --with-cuda="$work/cuda" --with-mpi=no \
        --disable-tests --enable-platform-aws --enable-cudart-dynamic LDFLAGS="-s -Wl,-rpath,$libraries/aws-ofi-nccl" \
        && make -j"$(nproc)" && make install DESTDIR="$work/root"
} >"$work/log" 2>&1 || {
    grep -E 'error:|Error ' "$work/log" | head -20
    tail -20 "$work/log"
    exit 1
}
plugin=$work/root$libraries/libnccl-net.so
rm -f "$work/root$libraries"/*.la
# NCCL_NET_PLUGIN=ofi asks for this name; newer releases install the same code once more for it.
ln -sf libnccl-net.so "$work/root$libraries/libnccl-net-ofi.so"

mkdir -p "$work/root/DEBIAN" "$work/root/usr/share/doc/aws-ofi-nccl"
cp LICENSE "$work/root/usr/share/doc/aws-ofi-nccl/copyright"
cat >"$work/root/DEBIAN/control" <<CONTROL
Package: aws-ofi-nccl
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: dlc <dlc@localhost>
Depends: libfabric1, libhwloc15, libstdc++6
Homepage: https://github.com/aws/aws-ofi-nccl
Description: NCCL plug-in for libfabric, compiled from source
CONTROL
dpkg-deb --root-owner-group --build "$work/root" "$folder/aws-ofi-nccl.deb"
echo "aws-ofi-nccl $version: $(grep -ao 'ncclNetPlugin_v[0-9]*' "$plugin" | sort -uV | tail -1)," \
    "libfabric $(dpkg-query -W -f '${Version}' libfabric1)"
rm -r "$work"
