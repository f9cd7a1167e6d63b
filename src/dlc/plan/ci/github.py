"""A workflow of GitHub Actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlc.core.yaml_text import Shared
from dlc.plan.changes import NO_REVISION
from dlc.plan.ci.jobs import BUILDER, ImageJob, Step, list_steps, make_key, write_setup

PACKAGES = ("git", "make", "mmdebstrap")
CHECKOUT = {"uses": "actions/checkout@v5", "with": {"fetch-depth": 0}}
# Ubuntu 24.04 lets no program but its own make the namespaces that mmdebstrap needs.
NAMESPACES = "sudo sysctl --quiet --write kernel.apparmor_restrict_unprivileged_userns=0\n"
ADD_TO_PATH = 'echo "$PWD/.venv/bin" >>"$GITHUB_PATH"\n'
FIND_CHANGES = """\
dlc plan --changed-since "$BASE_REVISION" --names >changed-images.txt
images=$(jq --raw-input --slurp --compact-output 'split("\\n")[:-1]' changed-images.txt)
echo "images=$images" >>"$GITHUB_OUTPUT"
"""
CHANGED = "changed"
# Step -> the secrets that it reads, and no other.
SECRETS = {"log in": ("REGISTRY_USER", "REGISTRY_PASSWORD"), "push": ("SIGNING_KEY",)}
RUNNER = "${{ vars.RUNNER || 'ubuntu-24.04' }}"


def render(jobs: Sequence[ImageJob], version: str, *, is_checkout: bool) -> dict[str, Any]:
    """Return the workflow as a value for YAML."""
    setup = "".join([NAMESPACES, write_setup(version, PACKAGES, sudo=True, is_checkout=is_checkout), ADD_TO_PATH])
    steps = Shared([CHECKOUT, *map(_render_step, list_steps(setup))])
    before = "github.event.pull_request.base.sha || github.event.before"
    return {
        "name": "images",
        "on": {"push": {"branches": ["main"]}, "pull_request": {}},
        "permissions": {"contents": "read"},
        "env": {
            "BUILDER": BUILDER,
            "CACHE": "${{ vars.CACHE }}",
            "STAGING": "${{ vars.STAGING }}",
            "PROD": "${{ vars.PROD }}",
            "BASE_REVISION": f"${{{{ {before} || '{NO_REVISION}' }}}}",
            "PROMOTE": "${{ github.ref == 'refs/heads/main' && 'yes' || 'no' }}",
        },
        "jobs": {CHANGED: _find_changes(setup), **{job.key: _render_job(job, steps) for job in jobs}},
    }


def _find_changes(setup: str) -> dict[str, Any]:
    """Return the job that says which images the others build."""
    return {
        "runs-on": RUNNER,
        "outputs": {"images": "${{ steps.plan.outputs.images }}"},
        "steps": [CHECKOUT, {"name": "dlc", "run": setup}, {"name": "plan", "id": "plan", "run": FIND_CHANGES}],
    }


def _render_job(job: ImageJob, steps: Sequence[Any]) -> dict[str, Any]:
    mine = f"contains(fromJSON(needs.{CHANGED}.outputs.images), '{job.image}')"
    return {
        "name": job.image,
        "needs": [CHANGED, *map(make_key, job.parents)],
        # A parent that has not changed is skipped, and its layer is in the cache.
        "if": f"${{{{ !cancelled() && !failure() && {mine} }}}}",
        "runs-on": RUNNER,
        "env": job.variables,
        "steps": steps,
    }


def _render_step(step: Step) -> dict[str, Any]:
    secrets = {name: f"${{{{ secrets.{name} }}}}" for name in SECRETS.get(step.name, ())}
    return {"name": step.name, **({"env": secrets} if secrets else {}), "run": step.script}
