"""A buildspec of AWS CodeBuild, whose batch is a graph of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dlc.plan.ci.jobs import BUILDER, ImageJob, list_steps, make_key, write_setup

# It names nothing by a digest.
VERSIONS: Mapping[str, str] = {}
PACKAGES = ("git", "make", "mmdebstrap")
ADD_TO_PATH = 'export PATH="$PWD/.venv/bin:$PATH"\n'
FIND_IMAGES = 'dlc plan "$IMAGE" --missing-from "$PROD" --names >images.txt\n'
# A login to ECR ends after 12 hours.
LOG_IN_TO_ECR = """\
export REGISTRY_USER=AWS
REGISTRY_PASSWORD=$(aws ecr get-login-password)
export REGISTRY_PASSWORD
"""
CHOOSE = """\
PROMOTE=no
if [ "${CODEBUILD_WEBHOOK_TRIGGER:-}" = branch/main ]; then
  PROMOTE=yes
fi
"""
# More of them than an image takes: 8 CPUs, 15 GB of memory, 128 GB of disk.
MACHINE = "BUILD_GENERAL1_LARGE"


def render(jobs: Sequence[ImageJob], *, is_checkout: bool) -> dict[str, Any]:
    """Return the buildspec as a value for YAML: all builds of the batch run it, each with an IMAGE of its own."""
    setup = write_setup(PACKAGES, sudo=False, is_checkout=is_checkout) + ADD_TO_PATH
    install, log_in, *steps = list_steps(setup)
    before = [LOG_IN_TO_ECR, log_in.script, CHOOSE, FIND_IMAGES]
    return {
        "version": 0.2,
        "env": {"shell": "bash", "variables": {"BUILDER": BUILDER}},
        "batch": {"fast-fail": False, "build-graph": [_render_build(job) for job in jobs]},
        "phases": {
            "install": {"on-failure": "ABORT", "commands": ["set -e\n" + install.script]},
            "pre_build": {"on-failure": "ABORT", "commands": ["set -e\n" + "".join(before)]},
            "build": {"on-failure": "ABORT", "commands": [_run_if_listed([step.script for step in steps])]},
        },
    }


def _render_build(job: ImageJob) -> dict[str, Any]:
    parents = {"depend-on": [make_key(parent) for parent in job.parents]} if job.parents else {}
    env = {"compute-type": MACHINE, "privileged-mode": True, "variables": job.variables}
    return {"identifier": job.key, **parents, "env": env}


def _run_if_listed(scripts: Sequence[str]) -> str:
    """Write one command of all steps, which ends with the first that fails; none runs for an image that PROD has."""
    lines = [f"  {line}\n" for script in scripts for line in script.splitlines()]
    return "".join(["set -e\n", "if [ -s images.txt ]; then\n", *lines, "fi\n"])
