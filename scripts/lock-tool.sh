#!/bin/sh
# Resolves what dlc and its build need into requirements.lock, what tests and linters need as well into
# requirements-dev.lock, what an installed dlc needs into requirements-run.lock, and pytest for the images' Pythons into
# tests/gpu, with hashes and without any index's address. uv's part is copied for `dlc export`, and for content keys.
set -eu
cd "$(dirname "$0")/.."
UV=${UV:-.venv/bin/uv}
compile() { "$UV" pip compile -q --universal --generate-hashes --no-header --no-annotate "$@"; }

tool="pyproject.toml --all-extras --group build --python-version 3.11"
# The words of $tool are separate arguments.
# shellcheck disable=SC2086
{
    compile $tool -o requirements.lock
    compile $tool --group dev --constraints requirements.lock -o requirements-dev.lock
}
# The wheel has it, and projects that pin their dlc: docs/own-images.md. Extras stay: without them pip 23, as Debian 12 has
# it, finds packages without a hash.
compile pyproject.toml --all-extras --no-strip-extras --python-version 3.11 --constraints requirements.lock \
    -o requirements-run.lock
# `dlc export` writes it into folders whose builds download uv.
sed -n '/^uv==/,/^[^ ]/{/^uv==/p;/^ /p}' requirements.lock >docker/export/prepare/uv.txt
# Later versions need a newer typing_extensions than the oldest images have.
printf 'pytest\nexceptiongroup<1.3\n' | compile - --python-version 3.9 -o tests/gpu/requirements.txt
echo "wrote requirements.lock, -dev.lock and -run.lock, docker/export/prepare/uv.txt and tests/gpu/requirements.txt"
