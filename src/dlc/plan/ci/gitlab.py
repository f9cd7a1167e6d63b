"""A pipeline of GitLab CI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlc.plan.changes import NO_REVISION
from dlc.plan.ci.jobs import BUILDER, ImageJob, list_steps, write_setup

IMAGE, SERVICE = "debian:trixie", "docker:28-dind"
PACKAGES = ("ca-certificates", "docker-buildx", "docker-cli", "git", "make", "mmdebstrap", "python3-venv")
ADD_TO_PATH = 'export PATH="$PWD/.venv/bin:$PATH"\n'
CHANGED, LIST, TEMPLATE = "changed", "changed-images.txt", ".image"
# GitLab decides before a pipeline which jobs run, so the job of an unchanged image ends at once.
END_IF_UNCHANGED = f"""\
if ! grep --quiet --line-regexp --fixed-strings "$IMAGE" {LIST}; then
  exit 0
fi
"""
# The null revision, or none, of the first pipeline of a branch.
BASE = f'BASE_REVISION="${{CI_MERGE_REQUEST_DIFF_BASE_SHA:-${{CI_COMMIT_BEFORE_SHA:-{NO_REVISION}}}}}"'


def render(jobs: Sequence[ImageJob], version: str, *, is_checkout: bool) -> dict[str, Any]:
    """Return the pipeline as a value for YAML."""
    setup = write_setup(version, PACKAGES, sudo=False, is_checkout=is_checkout) + ADD_TO_PATH
    return {
        "workflow": {
            "rules": [
                {"if": "$CI_PIPELINE_SOURCE == 'merge_request_event'", "variables": {"PROMOTE": "no"}},
                {"if": "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH", "variables": {"PROMOTE": "yes"}},
            ]
        },
        "stages": ["plan", "images"],
        "default": {"image": IMAGE, "interruptible": True},
        "variables": {
            "BUILDER": BUILDER,
            "GIT_DEPTH": "0",
            "DOCKER_HOST": "tcp://docker:2375",
            "DOCKER_TLS_CERTDIR": "",
        },
        CHANGED: {
            "stage": "plan",
            "script": [setup, BASE, f'dlc plan --changed-since "$BASE_REVISION" --names >{LIST}'],
            "artifacts": {"paths": [LIST], "expire_in": "1 day"},
        },
        TEMPLATE: {
            "stage": "images",
            "services": [SERVICE],
            "script": [END_IF_UNCHANGED, *(step.script for step in list_steps(setup))],
        },
        **{job.image: _render_job(job) for job in jobs},
    }


def _render_job(job: ImageJob) -> dict[str, Any]:
    parents = [{"job": parent, "artifacts": False} for parent in job.parents]
    return {
        "extends": TEMPLATE,
        "needs": [{"job": CHANGED, "artifacts": True}, *parents],
        "variables": job.variables,
    }
