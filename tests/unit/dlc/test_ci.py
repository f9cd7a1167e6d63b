"""dlc ci: a job for each image, its parents before it, and the files of examples/ci as the plan gives them."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from dlc.buildspec.matrix import load_variants
from dlc.cli.ci import write_file
from dlc.core.checkout import SourceFile, find_root, read_tree
from dlc.plan.ci.jobs import ImageJob, make_jobs
from harness.specimen import TORCH_ID, locked, unlocked

ROOT = find_root()
TREE = read_tree(ROOT)
SUPPORTED = [variant for variant in load_variants(TREE) if not variant.header.unsupported]
FILES = {"github": "github/images.yml", "gitlab": "gitlab/.gitlab-ci.yml", "codebuild": "codebuild/buildspec.yml"}
# https://docs.aws.amazon.com/codebuild/latest/userguide/build-spec-ref.html and batch-build-buildspec.html
PHASES = {"install", "pre_build", "build", "post_build"}
MOST_BUILDS = 100


def content(system: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "examples/ci" / FILES[system]).read_text())
    return found


@pytest.mark.parametrize("system", FILES)
def test_the_examples_are_what_the_plan_gives(system: str) -> None:
    text = write_file(system, SUPPORTED, TREE, [], is_checkout=True)
    assert (ROOT / "examples/ci" / FILES[system]).read_text() == text, f"dlc ci {system} >examples/ci/{FILES[system]}"


def test_images_with_one_cuda_layer_wait_for_the_first_of_them() -> None:
    jobs = {job.image: job.parents for job in make_jobs(SUPPORTED, TREE)}
    assert set(jobs) == {variant.id for variant in SUPPORTED}
    assert jobs["pytorch-2.9-training-cu128-py311"] == ()
    assert jobs["pytorch-2.9-training-cu128-py311-xla"] == ("pytorch-2.9-training-cu128-py311",)
    assert all(parents == () for image, parents in jobs.items() if "-cpu-" in image)


def test_another_cuda_lock_is_another_layer() -> None:
    [lock] = [path for path in TREE if path.endswith("/pytorch-2.9-training-cu128-py311-xla/cuda.txt")]
    other = TREE[lock].data.replace(b"--hash=sha256:", b"--hash=sha256:0", 1)
    jobs = {job.image: job.parents for job in make_jobs(SUPPORTED, {**TREE, lock: SourceFile(other)})}
    assert jobs["pytorch-2.9-training-cu128-py311-xla"] == ()


def test_a_projects_image_comes_after_the_released_one() -> None:
    own = {"dlc.yml": SourceFile(f"name: demo\nfrom: {TORCH_ID}\npackages: [einops==0.8.1]\n".encode())}
    tree = locked({**unlocked(), **own})
    released, demo = load_variants(tree, [TORCH_ID, f"{TORCH_ID}-demo"])
    jobs = make_jobs([demo, released], tree)
    assert jobs == (ImageJob(TORCH_ID, ()), ImageJob(f"{TORCH_ID}-demo", (TORCH_ID,)))
    assert make_jobs([demo], tree) == (ImageJob(f"{TORCH_ID}-demo", ()),)
    text = write_file("gitlab", [demo], tree, ["pytorch-*"], is_checkout=False)
    assert text.startswith("# Written by `dlc ci gitlab 'pytorch-*'`")
    assert "pip install --quiet --require-hashes -r locks/tool.txt" in text
    assert "make --silent setup" not in text


def test_github_jobs_need_jobs_that_there_are() -> None:
    jobs = content("github")["jobs"]
    assert len(jobs) == len(SUPPORTED) + 1
    for name, job in jobs.items():
        assert re.fullmatch("[a-zA-Z_][a-zA-Z0-9_-]*", name)
        assert set(job.get("needs", ())) <= set(jobs) - {name}
    xla = jobs["pytorch_2_9_training_cu128_py311_xla"]
    assert xla["needs"] == ["changed", "pytorch_2_9_training_cu128_py311"]
    assert "contains(fromJSON(needs.changed.outputs.images), 'pytorch-2.9-training-cu128-py311-xla')" in xla["if"]


def test_gitlab_jobs_need_jobs_that_there_are() -> None:
    found = content("gitlab")
    for variant in SUPPORTED:
        needed = [need["job"] for need in found[variant.id]["needs"]]
        assert needed[0] == "changed"
        assert set(needed) <= set(found)


def test_codebuild_has_what_the_reference_of_a_buildspec_allows() -> None:
    found = content("codebuild")
    assert set(found) == {"version", "env", "batch", "phases"}
    assert found["version"] == 0.2
    assert set(found["phases"]) <= PHASES
    assert all(set(phase) == {"on-failure", "commands"} for phase in found["phases"].values())
    assert set(found["batch"]) == {"fast-fail", "build-graph"}
    builds = {build["identifier"]: build for build in found["batch"]["build-graph"]}
    assert len(builds) == len(SUPPORTED) <= MOST_BUILDS
    known: set[str] = set()
    for name, build in builds.items():
        assert re.fullmatch("[A-Za-z0-9_]{1,128}", name)
        assert set(build) <= {"identifier", "depend-on", "env"}
        assert set(build["env"]) == {"compute-type", "privileged-mode", "variables"}
        assert set(build.get("depend-on", ())) <= known
        known.add(name)
