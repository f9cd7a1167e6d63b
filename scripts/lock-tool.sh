#!/bin/sh
# Resolves the tool's own dependencies into requirements.lock, and pytest for the images' Pythons into tests/gpu, with
# hashes and without any index's address.
set -eu
cd "$(dirname "$0")/.."
UV=${UV:-.venv/bin/uv}
compile() { "$UV" pip compile -q --universal --generate-hashes --no-header --no-annotate "$@"; }

compile pyproject.toml --group dev --python-version 3.11 -o requirements.lock
# Later versions need a newer typing_extensions than the oldest images have.
printf 'pytest\nexceptiongroup<1.3\n' | compile - --python-version 3.9 -o tests/gpu/requirements.txt
echo "wrote requirements.lock and tests/gpu/requirements.txt"
