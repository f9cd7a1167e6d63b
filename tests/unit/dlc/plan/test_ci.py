"""dlc ci: a job for each image, its parents before it, and the files of examples/ci as the plan gives them."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from dlc.buildspec.matrix import load_variants
from dlc.buildspec.tool_pin import TOOL_LOCK, ToolPin, write_tool_lock
from dlc.cli.ci import write_file
from dlc.core.checkout import SourceFile, find_root, read_tree
from dlc.core.errors import SpecError
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


PIN = ToolPin("https://git.example/dlc-1.2.3-py3-none-any.whl", "0" * 64)
PROJECT = f"name: demo\nfrom: {TORCH_ID}\n"
TOOL = f"tool: {{wheel: '{PIN.wheel}', sha256: '{PIN.sha256}'}}\n"


@pytest.mark.parametrize("system", FILES)
def test_a_project_installs_the_dlc_that_it_pins_by_hash(system: str) -> None:
    lock = SourceFile(write_tool_lock(PIN, "").encode())
    tree = locked({**unlocked(), "dlc.yml": SourceFile((PROJECT + TOOL).encode()), TOOL_LOCK: lock})
    demo = load_variants(tree, [f"{TORCH_ID}-demo"])
    text = write_file(system, demo, tree, ["pytorch-*"], is_checkout=False)
    assert text.startswith(f"# Written by `dlc ci {system} 'pytorch-*'`")
    assert "make --silent setup" not in text
    assert set(re.findall(r"pip install.*", text)) == {"pip install --quiet --require-hashes -r locks/tool.txt"}


@pytest.mark.parametrize("system", FILES)
def test_a_project_without_a_pinned_dlc_gets_no_file(system: str) -> None:
    tree = locked({**unlocked(), "dlc.yml": SourceFile(PROJECT.encode())})
    with pytest.raises(SpecError, match=r"dlc.yml: expected `tool`") as raised:
        write_file(system, load_variants(tree, [f"{TORCH_ID}-demo"]), tree, [], is_checkout=False)
    assert "dlc init --tool" in raised.value.remedy


def test_no_example_installs_dlc_by_a_bare_name() -> None:
    """Whoever registers the name on a public index would get the secrets of every job."""
    found = [path for path in (ROOT / "examples").rglob("*.yml") if "/.venv/" not in str(path)]
    assert len(found) > 5
    bare = re.compile(r"(?:pip|pipx|uv)\b.*\binstall\b.*\sdlc\b(?!/)")
    assert [str(path) for path in found if bare.search(path.read_text())] == []


def test_github_jobs_need_jobs_that_there_are() -> None:
    jobs = content("github")["jobs"]
    assert len(jobs) == len(SUPPORTED) + 1
    for name, job in jobs.items():
        assert re.fullmatch("[a-zA-Z_][a-zA-Z0-9_-]*", name)
        assert set(job.get("needs", ())) <= set(jobs) - {name}
    xla = jobs["pytorch_2_9_training_cu128_py311_xla"]
    assert xla["needs"] == ["plan", "pytorch_2_9_training_cu128_py311"]
    assert "contains(fromJSON(needs.plan.outputs.images), 'pytorch-2.9-training-cu128-py311-xla')" in xla["if"]


def test_gitlab_jobs_need_jobs_that_there_are() -> None:
    found = content("gitlab")
    for variant in SUPPORTED:
        needed = [need["job"] for need in found[variant.id]["needs"]]
        assert needed[0] == "plan"
        assert set(needed) <= set(found)


def test_pushes_of_one_image_wait_for_each_other_and_none_is_cancelled() -> None:
    """A pull request writes nothing: the run of its older push may end."""
    jobs = content("github")["jobs"]
    groups = {name: job["concurrency"] for name, job in jobs.items() if name != "plan"}
    assert {group["cancel-in-progress"] for group in groups.values()} == {"${{ github.event_name == 'pull_request' }}"}
    assert len({group["group"] for group in groups.values()}) == len(SUPPORTED)
    assert all(group["group"] == f"{jobs[name]['name']}-${{{{ github.ref }}}}" for name, group in groups.items())
    found = content("gitlab")
    assert all(found[each.id]["resource_group"] == f"{each.id}-$CI_COMMIT_REF_SLUG" for each in SUPPORTED)
    request, main = found["workflow"]["rules"]
    assert request["auto_cancel"] == {"on_new_commit": "interruptible"}
    assert main["auto_cancel"] == {"on_new_commit": "none"}


def test_actions_and_images_are_named_by_a_digest_with_their_version() -> None:
    """A tag can be moved, and what it means then runs with the secrets."""
    text = (ROOT / "examples/ci" / FILES["github"]).read_text()
    used = re.findall(r"uses: (.*)", text)
    assert used
    assert [each for each in used if not re.fullmatch(r"[a-z]+/[a-z-]+@[0-9a-f]{40} # v[0-9]+\.[0-9.]+", each)] == []
    found = content("gitlab")
    for image in (found["default"]["image"], found[".image"]["services"][0]["name"]):
        assert re.fullmatch(r"[a-z]+:[a-z0-9.-]+@sha256:[0-9a-f]{64}", image)


def test_github_gives_a_secret_to_the_step_that_needs_it_alone() -> None:
    job = content("github")["jobs"]["pytorch_2_13_training_cpu_py311"]
    env = {step["name"]: step["env"] for step in job["steps"] if "env" in step}
    assert {name: sorted(found) for name, found in env.items()} == {
        "log in": ["REGISTRY_PASSWORD", "REGISTRY_USER"], "push": ["SIGNING_KEY"], "promote": ["PUBLIC_KEY"],
    }  # fmt: skip
    assert env["log in"]["REGISTRY_USER"] == "${{ vars.REGISTRY_USER || secrets.REGISTRY_USER }}"
    checkout = job["steps"][0]["with"]
    assert checkout["persist-credentials"] is False


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
