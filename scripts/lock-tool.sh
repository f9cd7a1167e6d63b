#!/bin/sh
# Resolves the tool's own dependencies into requirements.lock, with hashes and without any index's address.
set -eu
cd "$(dirname "$0")/.."
UV=${UV:-.venv/bin/uv}
"$UV" pip compile -q pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes --no-header \
    --no-annotate -o requirements.lock
echo "wrote requirements.lock"
