# shellcheck shell=sh
# Sourced: points uv and pip at the user's index and credentials, which arrive as build secrets, and CA bundle.
export UV_CACHE_DIR=/root/.cache/uv UV_LINK_MODE=copy UV_NO_CONFIG=1 UV_NO_PROGRESS=1 UV_HTTP_TIMEOUT=180 PIP_DISABLE_PIP_VERSION_CHECK=1

# export_secret ID NAME...: put a secret, where there is one, into these variables.
export_secret() {
    [ -s "/run/secrets/$1" ] || return 0
    value=$(cat "/run/secrets/$1")
    shift
    for name in "$@"; do
        export "$name=$value"
    done
}
export_secret index_url UV_DEFAULT_INDEX PIP_INDEX_URL
export_secret extra_index_url UV_INDEX PIP_EXTRA_INDEX_URL
[ ! -s /scripts/ca/ca.pem ] || export SSL_CERT_FILE=/scripts/ca/ca.pem PIP_CERT=/scripts/ca/ca.pem
[ ! -s /run/secrets/netrc ] || export NETRC=/run/secrets/netrc
[ ! -d /wheels ] || export UV_FIND_LINKS=/wheels
