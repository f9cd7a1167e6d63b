"""A workflow of GitHub Actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlc.core.yaml_text import Shared
from dlc.plan.ci.jobs import BUILDER, ImageJob, Step, list_steps, make_key, write_setup

PACKAGES = ("git", "make", "mmdebstrap")
ACTION = "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1"
VERSIONS = {ACTION: "v7.0.1"}
CHECKOUT = {"uses": ACTION, "with": {"fetch-depth": 0, "persist-credentials": False}}
# Ubuntu 24.04 lets no program but its own make the namespaces that mmdebstrap needs.
NAMESPACES = "sudo sysctl --quiet --write kernel.apparmor_restrict_unprivileged_userns=0\n"
ADD_TO_PATH = 'echo "$PWD/.venv/bin" >>"$GITHUB_PATH"\n'
# What is checked out for a pull request is its merge, whose first parent is the branch that it goes to.
FIND_IMAGES = """\
if [ "$PROMOTE" = yes ]; then
  dlc plan --missing-from "$PROD" --names >images.txt
else
  dlc plan --changed-since HEAD^1 --names >images.txt
fi
images=$(jq --raw-input --slurp --compact-output 'split("\\n")[:-1]' images.txt)
echo "images=$images" >>"$GITHUB_OUTPUT"
"""
PLAN = "plan"
# Step -> what it alone reads of secrets and variables.
LOGIN = {
    "REGISTRY_USER": "${{ vars.REGISTRY_USER || secrets.REGISTRY_USER }}",
    "REGISTRY_PASSWORD": "${{ secrets.REGISTRY_PASSWORD }}",
}
READS = {
    "log in": LOGIN,
    "push": {"SIGNING_KEY": "${{ secrets.SIGNING_KEY }}"},
    "promote": {"PUBLIC_KEY": "${{ vars.PUBLIC_KEY }}"},
}
RUNNER = "${{ vars.RUNNER || 'ubuntu-24.04' }}"


def render(jobs: Sequence[ImageJob], *, is_checkout: bool) -> dict[str, Any]:
    """Return the workflow as a value for YAML."""
    setup = "".join([NAMESPACES, write_setup(PACKAGES, sudo=True, is_checkout=is_checkout), ADD_TO_PATH])
    steps = [CHECKOUT, *map(_render_step, list_steps(setup))]
    shared = Shared(steps)
    return {
        "name": "images",
        "on": {"push": {"branches": ["main"]}, "pull_request": {}},
        "permissions": {"contents": "read"},
        "env": {
            "BUILDER": BUILDER,
            "CACHE": "${{ vars.CACHE }}",
            "STAGING": "${{ vars.STAGING }}",
            "PROD": "${{ vars.PROD }}",
            "PROMOTE": "${{ github.ref == 'refs/heads/main' && 'yes' || 'no' }}",
        },
        "jobs": {PLAN: _find_images(steps[:3]), **{job.key: _render_job(job, shared) for job in jobs}},
    }


def _find_images(first: Sequence[Any]) -> dict[str, Any]:
    """Return the job that says which images the others build: it has dlc, and is logged in."""
    return {
        "name": PLAN,
        "runs-on": RUNNER,
        "outputs": {"images": "${{ steps.plan.outputs.images }}"},
        "steps": [*first, {"name": PLAN, "id": PLAN, "run": FIND_IMAGES}],
    }


def _render_job(job: ImageJob, steps: Sequence[Any]) -> dict[str, Any]:
    mine = f"contains(fromJSON(needs.{PLAN}.outputs.images), '{job.image}')"
    return {
        "name": job.image,
        "needs": [PLAN, *map(make_key, job.parents)],
        # A parent that is not built is skipped, and its layer is in the cache.
        "if": f"${{{{ !cancelled() && !failure() && {mine} }}}}",
        # One after the other on a branch. A pull request writes nothing, so a newer push to it ends what runs.
        "concurrency": {
            "group": f"{job.image}-${{{{ github.ref }}}}",
            "cancel-in-progress": "${{ github.event_name == 'pull_request' }}",
        },
        "runs-on": RUNNER,
        "env": job.variables,
        "steps": steps,
    }


def _render_step(step: Step) -> dict[str, Any]:
    env = READS.get(step.name)
    return {"name": step.name, **({"env": env} if env else {}), "run": step.script}
