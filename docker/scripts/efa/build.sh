#!/bin/sh
# Takes from the vendor's EFA installer what a container needs: libfabric, verbs libraries, NCCL's plug-in; no kernel
# module, MPI or tools. Adds a package that tells the loader where they are.
# usage: build.sh VERSION SOFTWARE FOLDER   (SOFTWARE holds the installer's tar.gz under the name `file`, or nothing)
set -eu
version=$1
archive=$2/file
folder=$3
work=/tmp/efa
mkdir -p "$folder"
[ -e "$archive" ] || exit 0
mkdir "$work"
export SOURCE_DATE_EPOCH=315532800

# Its packages lie in folders such as DEBS/DEBIAN12/x86_64 and DEBS/UBUNTU2204/x86_64.
# shellcheck source=/dev/null
. /etc/os-release
system=$(echo "$ID$VERSION_ID" | tr -d . | tr '[:lower:]' '[:upper:]')/$(uname -m)
tar -tzf "$archive" >"$work/list" || {
    echo "efa.url: expected a .tar.gz, found something else" >&2
    exit 65
}
grep "/DEBS/$system/.*\.deb$" "$work/list" | grep -v /debug/ >"$work/there" || {
    echo "efa.url: expected packages in DEBS/$system, found only:" \
        "$(sed -n 's,.*/\(DEBS/[^/]*/[^/]*\)/.*,\1,p' "$work/list" | sort -u | tr '\n' ' ')" >&2
    exit 65
}
for name in libfabric1-aws libnccl-ofi libibverbs1 ibverbs-providers librdmacm1 librdmacm1t64 efa-profile; do
    grep "/${name}_[^/]*$" "$work/there" || true
done >"$work/wanted"
for name in libfabric1-aws libnccl-ofi ibverbs-providers; do
    grep -q "/${name}_" "$work/wanted" || {
        echo "efa.url: expected a package $name in DEBS/$system, found only:" \
            "$(sed -n 's,.*/\([^/_]*\)_.*,\1,p' "$work/there" | sort -u | tr '\n' ' ')" >&2
        exit 65
    }
done
tar -xzf "$archive" -C "$work" --files-from "$work/wanted"
find "$work" -name '*.deb' -exec mv {} "$folder" ';'

# path_in PACKAGE NAME...: where a package has the first of these libraries.
path_in() {
    package=$1
    shift
    for name in "$@"; do
        dpkg-deb --fsys-tarfile "$folder/$package"_*.deb | tar -t | sed 's,^\.,,' | grep "/$name\$" && return
    done
    echo "efa.url: expected one of $* in its package $package, found none" >&2
    exit 65
}
plugin=$(path_in libnccl-ofi libnccl-net.so libnccl-net-ofi.so)
libfabric=$(path_in libfabric1-aws libfabric.so.1)

root=$work/root
libraries=/usr/lib/$(uname -m)-linux-gnu
mkdir -p "$root/DEBIAN" "$root/etc/ld.so.conf.d" "$root$libraries"
# Before Debian's folders, where Open MPI's libfabric is.
printf '%s\n' "$(dirname "$libfabric")" "$(dirname "$plugin")" | uniq >"$root/etc/ld.so.conf.d/000-dlc-efa.conf"
ln -s "$plugin" "$root$libraries/libnccl-net.so"
echo "activate-noawait ldconfig" >"$root/DEBIAN/triggers"
cat >"$root/DEBIAN/control" <<CONTROL
Package: dlc-efa
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: dlc <dlc@localhost>
Depends: libfabric1-aws, libnccl-ofi
Description: where the loader finds the EFA installer's libraries
CONTROL
dpkg-deb --root-owner-group --build "$root" "$folder/dlc-efa.deb"
rm -r "$work"
