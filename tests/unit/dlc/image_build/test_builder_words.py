"""Builders of docker buildx: what inspect says of one, caches for each image, and what a builder is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dlc.core.errors import BuildError, DlcError, EngineError, RegistryError, UsageError
from dlc.engine.builders import Builder, find_builder, parse_inspected
from dlc.image_build.bake_file import Caches, HostInputs, bake_name
from dlc.image_build.buildkit_log import Progress, error_of
from dlc.image_build.on_builder import Place, make_caches, read_digest, render
from dlc.plan.plan import Plan, make_plan
from harness.specimen import TENSORFLOW_ID, TORCH_ID, specimen

RUNNING = """\
Name:          far
Driver:        docker-container
Last Activity: 2026-11-28 12:00:00 +0000 UTC

Nodes:
Name:             far0
Endpoint:         ssh://me@far.example
Status:           running
BuildKit version: v0.24.0
Platforms:        linux/amd64*, linux/amd64/v2, linux/arm64

Name:      far1
Endpoint:  ssh://me@farther.example
Error:     Cannot connect to the Docker daemon
"""
DEAD = """\
Name:   far
Driver: remote

Nodes:
Name:      far0
Endpoint:  tcp://far.example:1234
Error:     context deadline exceeded
"""
FAR = Builder("far", "remote", ("linux/amd64",))
ENGINE = Builder("second", "docker", ("linux/amd64",))
CACHE = "type=registry,ref=r.example/cache:{image}"


def place(image: str) -> Place:
    return Place("r.example/team/pytorch", f"{image}-0123")


def rendered(plan: Plan, builder: Builder, caches: Caches) -> dict[str, Any]:
    wanted = {context for target in plan.targets for context in (target.context, *target.contexts.values())}
    files = {target.dockerfile: Path("/cache", target.dockerfile) for target in plan.targets}
    inputs = HostInputs({context: Path("/cache", str(context)) for context in wanted}, files)
    places = {image: place(image) for image in plan.selected}
    found: dict[str, Any] = render(plan, inputs, builder, places, epoch=1, revision="abc", caches=caches)["target"]
    return found


def test_a_builder_runs_if_one_of_its_nodes_does() -> None:
    assert parse_inspected("far", RUNNING) == Builder(
        "far", "docker-container", ("linux/amd64", "linux/amd64/v2", "linux/arm64")
    )
    with pytest.raises(EngineError, match="expected a builder that runs, found: context deadline exceeded"):
        parse_inspected("far", DEAD)
    with pytest.raises(EngineError, match="status inactive"):
        parse_inspected("far", RUNNING.replace("running", "inactive").replace("Error:", "Other:"))
    with pytest.raises(EngineError, match="status unknown"):
        parse_inspected("far", "")


@pytest.mark.parametrize("name", ["", "--help", "a b", "-x", "../x"])
def test_what_is_no_name_of_a_builder_is_not_asked_for(name: str) -> None:
    with pytest.raises(EngineError, match="expected the name of a builder"):
        find_builder(name)


def test_a_builder_of_another_platform_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dlc.engine.builders.host_platform", lambda: "linux/amd64")
    FAR.require_platform()
    Builder("any", "remote", ()).require_platform()
    with pytest.raises(EngineError, match="expected a builder for linux/amd64, found one for linux/arm64"):
        Builder("arm", "remote", ("linux/arm64",)).require_platform()


def test_a_builder_pushes_by_digest_and_an_engine_under_a_tag_that_nobody_reads() -> None:
    plan = make_plan(specimen(), [TORCH_ID])
    far, engine = (
        rendered(plan, builder, Caches((CACHE,), (CACHE,)))[bake_name(TORCH_ID)] for builder in (FAR, ENGINE)
    )
    assert "tags" not in far
    [output] = far["output"]
    assert output.startswith("type=image,push=true,")
    assert "name=r.example/team/pytorch,push-by-digest=true" in output
    assert engine["output"][0].endswith(f"name=r.example/team/pytorch:{TORCH_ID}-0123-unverified")
    assert "push-by-digest" not in engine["output"][0]
    assert far["labels"]["org.dlc.content-key"] == plan.target(TORCH_ID).key


def test_every_step_looks_in_the_caches_of_all_images_and_each_image_writes_its_own() -> None:
    plan = make_plan(specimen())
    fixed = "type=registry,ref=r.example/cache:main"
    targets = rendered(plan, FAR, Caches((CACHE, fixed), (f"{CACHE},mode=max",)))
    wanted = [CACHE.replace("{image}", image) for image in (TORCH_ID, TENSORFLOW_ID)] + [fixed]
    assert all(target["cache-from"] == wanted for target in targets.values())
    written = {name: target["cache-to"] for name, target in targets.items() if "cache-to" in target}
    assert written == {
        bake_name(image): [f"type=registry,ref=r.example/cache:{image},mode=max"] for image in (TORCH_ID, TENSORFLOW_ID)
    }


@pytest.mark.parametrize(
    ("sources", "targets", "said"),
    [
        (["r.example/cache"], [], "--cache-from r.example/cache: expected type=registry|gha|s3|local|inline"),
        (["type=memory"], [], "found other text"),
        ([], ["ref=x,type=registry,type=gha"], "--cache-to"),
        ([], ["type=local,dest=cache"], "expected {image} in it, for each of 2 images"),
    ],
)
def test_a_cache_that_cannot_be_used_is_an_error_before_the_build(
    sources: list[str], targets: list[str], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        make_caches(sources, targets, [TORCH_ID, TENSORFLOW_ID])
    assert said in caught.value.message


def test_the_kinds_of_caches_that_buildx_has_are_taken() -> None:
    words = ["type=gha,scope={image}", "type=s3,region=eu-west-1,bucket=b,name={image}", "type=local,dest=c/{image}"]
    assert make_caches(words, [*words, "type=inline"], ["one", "two"]).sources == tuple(words)
    assert make_caches([], ["type=local,dest=cache"], ["one"]).targets == ("type=local,dest=cache",)


def failure(*lines: str) -> DlcError:
    progress = Progress()
    for line in lines:
        progress.feed(line)
    return error_of(progress, Path("log"))


def test_a_cache_that_is_not_there_yet_is_no_failure_of_the_step_that_fails() -> None:
    found = failure(
        "#3 importing cache manifest from r.example/cache:one",
        "#3 ERROR: r.example/cache:one: not found",
        "#7 [one 1/1] RUN false",
        "#7 0.5 it is wrong",
        "#7 ERROR: exit code: 1",
    )
    assert found.message.startswith("one 1/1 failed:")


@pytest.mark.parametrize(
    ("line", "error", "meaning"),
    [
        ("failed commit on ref: unexpected commit digest sha256:1, expected sha256:2", RegistryError, "other bytes"),
        ("failed size validation: 3 != 5: failed precondition", RegistryError, "other bytes"),
        ("Cache export is not supported for the docker driver.", EngineError, "this builder cannot do that"),
        (
            'listing workers for Build: failed to list workers: Unavailable: connection error: desc = "transport: '
            'Error while dialing: dial unix /run/second.sock: connect: connection refused"',
            EngineError,
            "has gone away",
        ),
        ("Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?", EngineError, "gone away"),
        ("context deadline exceeded", EngineError, "gone away"),
        (
            "failed to receive status: rpc error: code = Unavailable desc = error reading from server: EOF",
            EngineError,
            "gone away",
        ),
        (
            'failed to solve: error writing layer blob: failed to do request: Head "http://r.example/v2/c/blobs/1": '
            "dial tcp 192.0.2.1:443: connect: connection refused",
            RegistryError,
            "a registry does not answer",
        ),
        ('failed to solve: process "/bin/sh -c echo failed to do request" did not complete', BuildError, "failed:"),
    ],
)
def test_what_a_builder_or_a_cache_does_is_one_error(line: str, error: type[DlcError], meaning: str) -> None:
    found = failure("#1 [internal] load", f"ERROR: {line}")
    assert type(found) is error
    assert meaning in found.message
    assert found.remedy


def test_a_digest_is_read_from_what_buildx_writes() -> None:
    assert read_digest('{"a-1_2": {"containerimage.digest": "sha256:1"}}', "a-1.2") == "sha256:1"
    for said in ("", "{}", "[]", '{"a-1_2": 1}'):
        with pytest.raises(BuildError, match="expected docker buildx to write its digest"):
            read_digest(said, "a-1.2")
