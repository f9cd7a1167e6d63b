#!/bin/sh
# Every static check of the repository.
set -eu
cd "$(dirname "$0")/.."
PATH=$(pwd)/.venv/bin:$PATH

ruff check .
ruff format --check .
mypy src/dlc
mypy --python-version 3.10 src/dlc_channel
mypy --python-version 3.10 src/entrypoint
mypy --python-version 3.10 src/dlc_runtime
mypy --python-version 3.10 src/dlc_lint
hadolint docker/*/Dockerfile docker/export/host.Dockerfile
shellcheck -x docker/scripts/*/*.sh docker/export/*/*.sh scripts/*.sh .ci/run
dlc schema --check
check-jsonschema --schemafile buildspec/buildspec.schema.json buildspec/*/*.yml
check-jsonschema --schemafile docs/job.schema.json examples/*/job.yml examples/*/*/job.yml
check-jsonschema --builtin-schema vendor.github-workflows examples/ci/github/*.yml
check-jsonschema --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci examples/ci/gitlab/.gitlab-ci.yml
