#!/bin/sh
# Makes .venv, the tool's own environment, from the hashed requirements.lock; installs Debian's Python packages if they are missing.
# With `dev` it adds what tests and linters need, from requirements-dev.lock.
# usage: bootstrap.sh [dev]
set -eu
cd "$(dirname "$0")/.."
# Not the Python of an activated .venv, which is about to be removed.
PATH=$(printf %s "$PATH" | sed "s#$(pwd)/.venv/bin:##g")

find_python() {
    for candidate in python3.13 python3.12 python3.11 python3; do
        path=$(command -v "$candidate") || continue
        "$path" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$path" && return
    done
    return 1
}

make_venv() {
    rm -rf .venv
    "$1" -m venv .venv >/dev/null 2>&1
}

install_packages() {
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "dlc needs $*: install it and run this again" >&2
        exit 1
    fi
    echo "installing $* (Debian packages)"
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$@" >/dev/null
}

make_environment() {
    command -v git >/dev/null || install_packages git ca-certificates
    python=$(find_python) || { install_packages python3 python3-venv ca-certificates; python=$(find_python) || python=; }
    if [ -z "$python" ]; then
        echo "dlc needs Python 3.11 or newer, which this distribution does not package: install one and run this again" >&2
        exit 1
    fi
    # Debian's python3 comes without ensurepip.
    make_venv "$python" || { install_packages python3-venv; make_venv "$python"; }

    echo "setting up .venv with $("$python" --version)"
}

export PIP_DISABLE_PIP_VERSION_CHECK=1
# Debian's pip has certificates of its own. The system's may include that of a company's proxy.
bundle=/etc/ssl/certs/ca-certificates.crt
[ -n "${PIP_CERT:-}" ] || [ ! -f "$bundle" ] || export PIP_CERT="$bundle"

# uv takes 2 seconds where pip takes 25, but reads none of pip's settings: who has another index or a proxy gets pip.
with_uv() {
    ! .venv/bin/python -m pip config list | grep -qE '\.(index-url|no-index|proxy|trusted-host|client-cert)=' || return 1
    [ -x .venv/bin/uv ] || {
        sed -n '/^uv==/,/[^\\]$/p' requirements.lock >.venv/uv.txt
        .venv/bin/python -m pip install -qq --require-hashes -r .venv/uv.txt || return 1
    }
    SSL_CERT_FILE=${SSL_CERT_FILE:-${PIP_CERT:-}} .venv/bin/uv pip install -q --python .venv/bin/python --require-hashes -r "$1"
}
install() {
    with_uv "$1" 2>/dev/null || .venv/bin/python -m pip install -qq --require-hashes -r "$1"
}

if [ "${1:-}" = dev ]; then
    echo "adding what tests and linters need to .venv"
    install requirements-dev.lock
    touch .venv/ready-dev
else
    make_environment
    install requirements.lock
    .venv/bin/python -m pip install -qq --no-index --no-deps --no-build-isolation -e .
    touch .venv/ready
fi
