"""A pipeline of GitLab CI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dlc.plan.ci.jobs import BUILDER, LOG_IN, ImageJob, list_steps, write_setup

IMAGE = "debian:trixie@sha256:34cd9e9fd437c0a095ec39cb2e73422c9f30821b0d0848ed74fd0d43bae4d958"
SERVICE = "docker:28.5.2-dind@sha256:2a232a42256f70d78e3cc5d2b5d6b3276710a0de0596c145f627ecfae90282ac"
# Their names have them already.
VERSIONS: Mapping[str, str] = {}
PACKAGES = ("ca-certificates", "docker-buildx", "docker-cli", "git", "make", "mmdebstrap", "python3-venv")
ADD_TO_PATH = 'export PATH="$PWD/.venv/bin:$PATH"\n'
PLAN, LIST, TEMPLATE = "plan", "images.txt", ".image"
FIND_IMAGES = f"""\
if [ "$PROMOTE" = yes ]; then
  dlc plan --missing-from "$PROD" --names >{LIST}
else
  dlc plan --changed-since "$CI_MERGE_REQUEST_DIFF_BASE_SHA" --names >{LIST}
fi
"""
# GitLab decides before a pipeline which jobs run, so the job of an image that is not listed ends at once.
END_IF_THERE = f"""\
if ! grep --quiet --line-regexp --fixed-strings "$IMAGE" {LIST}; then
  exit 0
fi
"""


def render(jobs: Sequence[ImageJob], *, is_checkout: bool) -> dict[str, Any]:
    """Return the pipeline as a value for YAML."""
    setup = write_setup(PACKAGES, sudo=False, is_checkout=is_checkout) + ADD_TO_PATH
    return {
        "workflow": {
            # A newer push ends the pipeline of a merge request, which writes nothing, and no pipeline that promotes.
            "rules": [
                {
                    "if": "$CI_PIPELINE_SOURCE == 'merge_request_event'",
                    "variables": {"PROMOTE": "no"},
                    "auto_cancel": {"on_new_commit": "interruptible"},
                },
                {
                    "if": "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH",
                    "variables": {"PROMOTE": "yes"},
                    "auto_cancel": {"on_new_commit": "none"},
                },
            ]
        },
        "stages": [PLAN, "images"],
        "default": {"image": IMAGE, "interruptible": True},
        "variables": {
            "BUILDER": BUILDER,
            "GIT_DEPTH": "0",
            "DOCKER_HOST": "tcp://docker:2375",
            "DOCKER_TLS_CERTDIR": "",
        },
        PLAN: {
            "stage": PLAN,
            "script": [setup, LOG_IN, FIND_IMAGES],
            "artifacts": {"paths": [LIST], "expire_in": "1 day"},
        },
        TEMPLATE: {
            "stage": "images",
            "services": [{"name": SERVICE, "alias": "docker"}],
            "script": [END_IF_THERE, *(step.script for step in list_steps(setup))],
        },
        **{job.image: _render_job(job) for job in jobs},
    }


def _render_job(job: ImageJob) -> dict[str, Any]:
    parents = [{"job": parent, "artifacts": False} for parent in job.parents]
    return {
        "extends": TEMPLATE,
        "needs": [{"job": PLAN, "artifacts": True}, *parents],
        # One after the other on a branch.
        "resource_group": f"{job.image}-$CI_COMMIT_REF_SLUG",
        "variables": job.variables,
    }
