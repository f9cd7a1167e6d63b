#!/bin/sh
# Makes known to the loader where hosts mount NVIDIA's driver, and installs a newer user library of it where one is named.
# usage: install.sh CUDA_MAJOR FOLDER   (0 for an image without CUDA; FOLDER holds NVIDIA's package cuda-compat under the name `file`, or nothing)
set -eu
major=$1
package=$2/file

[ "$major" -gt 0 ] || exit 0
# Container runtimes run ldconfig when they have mounted the driver; the folders come with it.
printf '%s\n' /usr/local/nvidia/lib /usr/local/nvidia/lib64 >/etc/ld.so.conf.d/dlc-nvidia.conf
[ -e "$package" ] || exit 0

name=$(dpkg-deb --field "$package" Package 2>/dev/null) || name="a file that is no Debian package"
found=$(expr "$name" : 'cuda-compat-\([0-9]*\)-[0-9]*$') || found=0
if [ "$found" -lt "$major" ]; then
    echo "cuda_compat.url: expected NVIDIA's package cuda-compat-$major-* or a later one, found $name" >&2
    exit 65
fi
work=$(mktemp -d)
cp "$package" "$work/$name.deb"
/scripts/os-packages/install.sh "$work/$name.deb"
rm -r "$work"

# Where NVIDIA's container runtime looks for it: it mounts the host's driver, or this where it is newer.
library=$(dpkg --listfiles "$name" | grep '/libcuda\.so\.1$') || {
    echo "cuda_compat.url: expected libcuda.so.1 in $name, found none" >&2
    exit 65
}
mkdir -p /usr/local/cuda
[ -e /usr/local/cuda/compat ] || ln -s "$(dirname "$library")" /usr/local/cuda/compat
