"""The jobs of a CI file: one for each image, what it waits for, and the steps that every CI system runs in a shell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dlc.buildspec import cuda_efa
from dlc.buildspec.lockfile import locked_versions, without_headers
from dlc.buildspec.tool_pin import TOOL_LOCK
from dlc.buildspec.variant import Variant
from dlc.core.checkout import Tree, files_below
from dlc.core.yaml_text import write_yaml
from dlc.plan.targets import make_targets

CUDA_LOCK = "cuda.txt"
# Variables of the file -> what its user writes there.
VARIABLES = {
    "BUILDER": "the builder of docker buildx, which is made if there is none of this name",
    "CACHE": "a repository for the builders' cache: registry.example/cache/dlc",
    "STAGING": "where images go that are to be tested: registry.example/staging",
    "PROD": "where they are promoted to: registry.example/prod",
    "REGISTRY_USER": "who may push to all three; without a user the login of the runner counts",
    "REGISTRY_PASSWORD": "a secret",
    "SIGNING_KEY": "a secret: the private key (PEM) by which dlc push --sign signs",
    "BASE_REVISION": "the commit before, with which content keys are compared",
    "PROMOTE": "`yes` on the branch whose images go to PROD",
}
BUILDER = "dlc-ci"


@dataclass(frozen=True)
class Step:
    """A named piece of shell. It is run by `bash -e` in the folder of the sources."""

    name: str
    script: str


@dataclass(frozen=True)
class ImageJob:
    """The job of one image."""

    image: str
    # Images whose builders make a layer that this one takes from the cache.
    parents: tuple[str, ...]

    @property
    def variables(self) -> dict[str, str]:
        """Return what the steps of all jobs read of this one."""
        return {"IMAGE": self.image, "PARENTS": " ".join(self.parents)}

    @property
    def key(self) -> str:
        """Return its name in systems that allow letters, digits and underlines only."""
        return make_key(self.image)


def make_key(image: str) -> str:
    """Return an image's name with underlines for what no variable may hold."""
    return re.sub(r"[^A-Za-z0-9]", "_", image)


def make_jobs(variants: Sequence[Variant], tree: Tree) -> tuple[ImageJob, ...]:
    """Make the jobs of these images, parents first.

    Of the images that have one CUDA layer the first builds it; the others wait, and take it from the cache. A project's
    image waits for the released image that it starts from.
    """
    known = {variant.id for variant in variants}
    first: dict[tuple[object, ...], str] = {}
    jobs = {}
    for variant in variants:
        parents = [variant.base.id] if variant.base and variant.base.id in known else []
        if layer := _describe_cuda_layer(variant, tree):
            builder = first.setdefault(layer, variant.id)
            parents += [builder] if builder not in (variant.id, *parents) else []
        jobs[variant.id] = ImageJob(variant.id, tuple(parents))
    return _sort_by_parents(jobs)


def _sort_by_parents(jobs: dict[str, ImageJob]) -> tuple[ImageJob, ...]:
    found: dict[str, ImageJob] = {}

    def add(job: ImageJob) -> None:
        for parent in job.parents:
            add(jobs[parent])
        found.setdefault(job.image, job)

    for job in jobs.values():
        add(job)
    return tuple(found.values())


def _describe_cuda_layer(variant: Variant, tree: Tree) -> tuple[object, ...]:
    """Return all that decides the bytes of the image's CUDA layer; empty if it has none."""
    if not cuda_efa.shared_packages(locked_versions(tree, variant)):
        return ()
    [stage] = [target for target in make_targets(variant, tree, {}) if target.stage == "cuda"]
    lock = without_headers(files_below(tree, variant.lock_folder))[CUDA_LOCK].data
    below = sorted((name, str(context)) for name, context in stage.contexts.items())
    # A target's name holds its image's, so the tools below the layer count by what they are made from.
    tools = [(name, what) for name, what in below if variant.id not in what]
    return (lock, stage.dockerfile, tuple(sorted(stage.args.items())), tuple(tools))


def list_steps(setup: str) -> tuple[Step, ...]:
    """List the steps of every image's job: they read IMAGE and PARENTS. `setup` is the shell that installs dlc."""
    return (
        Step("dlc", setup),
        Step("log in", LOG_IN),
        Step("builder", MAKE_BUILDER),
        Step("build", BUILD),
        Step("test", 'dlc test "$IMAGE"'),
        Step("scan", 'dlc scan "$IMAGE"'),
        Step("push", PUSH),
        Step("promote", PROMOTE),
    )


LOG_IN = """\
if [ -n "${REGISTRY_USER:-}" ]; then
  for registry in "${CACHE%%/*}" "${STAGING%%/*}" "${PROD%%/*}"; do
    printf %s "$REGISTRY_PASSWORD" | docker login --username "$REGISTRY_USER" --password-stdin "$registry"
  done
fi
"""
BUILD = """\
caches=()
for image in $IMAGE $PARENTS; do
  caches+=(--cache-from "type=registry,ref=$CACHE:$image")
done
dlc build "$IMAGE" --builder "$BUILDER" --push "$STAGING" \\
  "${caches[@]}" --cache-to "type=registry,ref=$CACHE:$IMAGE,mode=max"
"""
# Signed, the push attaches what the scan and the tests found; without them nothing is promoted.
PUSH = """\
if [ -n "${SIGNING_KEY:-}" ]; then
  key=$(mktemp)
  printf '%s\\n' "$SIGNING_KEY" >"$key"
  dlc push "$IMAGE" --to "$STAGING" --sign "$key"
  rm "$key"
else
  dlc push "$IMAGE" --to "$STAGING"
fi
"""
PROMOTE = """\
if [ "$PROMOTE" = yes ]; then
  dlc promote "$IMAGE" --from "$STAGING" --to "$PROD"
fi
"""
MAKE_BUILDER = """\
docker buildx inspect "$BUILDER" >/dev/null 2>&1 \\
  || docker buildx create --name "$BUILDER" --driver docker-container
"""


def write_setup(version: str, packages: Sequence[str], *, sudo: bool, is_checkout: bool) -> str:
    """Write the shell that installs dlc: of the checkout itself, or a release for a project. Its .venv is on PATH."""
    before = "sudo " if sudo else ""
    release = f"python3 -m venv .venv\n.venv/bin/pip install --quiet --require-hashes -r {TOOL_LOCK}"
    return "\n".join([
        f"{before}apt-get -qq update",
        f"{before}apt-get -qq -y install {' '.join(packages)} >/dev/null",
        "make --silent setup" if is_checkout else release,
        "",
    ])  # fmt: skip


def render_text(content: object, command: str) -> str:
    """Return the file's text, with the command that writes it."""
    head = f"# Written by `{command}`, which writes it again after a change of images.\n"
    notes = [f"#   {name:<18} {meaning}\n" for name, meaning in VARIABLES.items()]
    return "".join([head, "# Its variables:\n", *notes, write_yaml(content)])
