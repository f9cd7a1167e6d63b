"""Provenance of an image by SLSA v1: from which sources, packages and downloads it was built, and by whom. Pure.

What the build is, is said by the image's labels and by the plan whose content key the image has: a push takes no
other image. docs/proof.md says what each field holds.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dlc
from dlc.buildspec.lockfile import ALL_FILES
from dlc.core.checkout import PROJECT, Tree
from dlc.core.environment import hide_password
from dlc.core.labels import ID, KEY, PLATFORM, REVISION
from dlc.plan.contexts import Image, Pinned, Repo
from dlc.plan.plan import Plan
from dlc.plan.targets import Target, read_uv_version
from dlc.proof.statement import Predicate

BUILD_TYPE = "urn:dlc:build:1"
# A checkout whose repository has no address, or one that is a folder of some host.
NO_ADDRESS = "urn:dlc:checkout"
# A download that was a file of some host; its name follows.
OF_FILE = "urn:dlc:file:"
# How addresses begin that mean the same on every host; the second form is git's own for ssh, HOST:PATH.
IN_NETWORK = re.compile(r"(?:https?|ssh|git|ftps?|s3)://[^/]|(?:[\w.-]+@)?[\w-][\w.-]+:(?!//)", re.ASCII)
DIRTY = "-dirty"
Material = Mapping[str, Any]


@dataclass(frozen=True)
class Builder:
    """Who built: an address that policies name, and the run of it, both empty if nothing says so."""

    id: str
    run: str = ""


@dataclass(frozen=True)
class Origin:
    """What a provenance says of an image that can be compared with the image and with a checkout."""

    # What the user asked for: an identifier of the buildspec and texts of --set, which may give it another one.
    asked: str
    sets: tuple[str, ...]
    id: str
    key: str
    platform: str
    revision: str
    builder: str
    # The versions of dlc and of its uv that made it; empty if it does not say one.
    dlc: str
    uv: str
    # Base image of the user's choice -> its digest when it was built from.
    bases: Mapping[str, str]
    # As in `pytorch:2.13.0-training-cpu-py311-bookworm`: what it was pushed as.
    names: tuple[str, ...] = ()

    @property
    def commit(self) -> str:
        """Return the commit, without the mark of changed files."""
        return self.revision.removesuffix(DIRTY)

    @property
    def is_changed(self) -> bool:
        """Tell whether files differed from the commit."""
        return self.revision != self.commit

    @property
    def is_clean(self) -> bool:
        """Tell whether the commit alone says what was built."""
        return not self.is_changed and self.commit not in ("", "unknown")


def find_builder(environment: Mapping[str, str]) -> Builder:
    """Return the CI job that runs dlc, as its own variables name it; of a user's machine a name without an address."""
    if environment.get("GITHUB_ACTIONS"):
        server, where = environment.get("GITHUB_SERVER_URL", ""), environment.get("GITHUB_REPOSITORY", "")
        workflow = environment.get("GITHUB_WORKFLOW_REF", where)
        return Builder(f"{server}/{workflow}", f"{server}/{where}/actions/runs/{environment.get('GITHUB_RUN_ID', '')}")
    if environment.get("GITLAB_CI"):
        return Builder(environment.get("CI_PROJECT_URL", "urn:dlc:gitlab"), environment.get("CI_JOB_URL", ""))
    if found := environment.get("CODEBUILD_BUILD_ARN"):
        # arn:aws:codebuild:REGION:ACCOUNT:build/PROJECT:ID
        return Builder(found.rpartition(":")[0].replace(":build/", ":project/"), found)
    return Builder("urn:dlc:builder:local")


@dataclass(frozen=True)
class Sources:
    """What an image was built from: its plan, which selects it alone, and what the user asked for.

    `address` is the repository's, empty if it has none. `names` are those that the image is pushed under.
    """

    plan: Plan
    tree: Tree
    asked: str
    sets: Sequence[str]
    address: str
    names: Sequence[str] = ()


def make_provenance(labels: Mapping[str, str], sources: Sources, builder: Builder, engine: str) -> Predicate:
    """Return the predicate for an image with these labels. `engine` is the version of the Docker engine."""
    revision = labels.get(REVISION, "")
    outer = {"image": sources.asked, "set": list(sources.sets), "revision": revision}
    # A push takes only an image with the key of these recipes, so it was made with their uv.
    versions = {"dlc": dlc.__version__, "uv": read_uv_version(sources.tree), "docker": engine}
    inner = {"id": labels[ID], "contentKey": labels[KEY], "platform": labels.get(PLATFORM, "")}
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": outer,
            "internalParameters": {**inner, "names": list(sources.names)},
            "resolvedDependencies": list(list_materials(sources, revision)),
        },
        "runDetails": describe_run(builder, versions),
    }


def describe_run(builder: Builder, versions: Mapping[str, str]) -> Mapping[str, Any]:
    """Return who built, with which versions of the tools."""
    run = {"metadata": {"invocationId": builder.run}} if builder.run else {}
    return {"builder": {"id": builder.id, "version": dict(versions)}, **run}


def list_materials(sources: Sources, revision: str) -> Iterator[Material]:
    """Yield the commit, the files that pin what a build downloads, downloads and base images, each with its digest."""
    plan, tree = sources.plan, sources.tree
    address = f"git+{sources.address}" if IN_NETWORK.match(sources.address) else NO_ADDRESS
    commit = revision.removesuffix(DIRTY)
    yield {"uri": address, **({"digest": {"gitCommit": commit}} if _is_hex(commit) else {"name": revision})}
    for path in sorted(_list_pinning_files(plan, tree)):
        digest = hashlib.sha256(tree[path].data).hexdigest()
        yield {"uri": f"{address}#{path}", "name": path, "digest": {"sha256": digest}}
    contexts = {context for target in plan.targets for context in (target.context, *target.contexts.values())}
    for context in sorted(contexts, key=str):
        if isinstance(context, Pinned):
            yield {"uri": hide_place(context.address), "digest": {"sha256": context.sha256}}
        elif isinstance(context, Image) and context.digest:
            yield {"uri": f"docker://{context.reference}", "digest": {"sha256": context.digest.partition(":")[2]}}


def hide_place(address: str) -> str:
    """Return the address of a download without passwords; of a file of this host only its name. Pure."""
    return hide_password(address) if IN_NETWORK.match(address) else OF_FILE + address.rstrip("/").rpartition("/")[2]


def _list_pinning_files(plan: Plan, tree: Tree) -> set[str]:
    """Return the Dockerfiles, and the locks and recorded versions, whose hashes every download is checked against."""
    found = {target.dockerfile for target in plan.targets if not target.inline}
    folders = {folder for target in plan.targets for folder in _list_folders(target)}
    found |= {f"{folder}/{name}" for folder in folders for name in ALL_FILES}
    suites = {target.id.removeprefix("rootfs-") for target in plan.targets if target.id.startswith("rootfs-")}
    found |= {f"docker/debian/{suite}/versions.txt" for suite in suites}
    return {path for path in (*found, PROJECT) if path in tree}


def _list_folders(target: Target) -> Iterator[str]:
    for context in (target.context, *target.contexts.values()):
        if isinstance(context, Repo):
            yield context.folder


def read_origin(predicate: Predicate) -> Origin:
    """Read what a provenance says. Raises ValueError for one that dlc did not write."""
    try:
        definition = predicate["buildDefinition"]
        if definition["buildType"] != BUILD_TYPE:
            raise ValueError(f"a build of type {definition['buildType']}")
        outer, inner = definition["externalParameters"], definition["internalParameters"]
        builder = predicate["runDetails"]["builder"]
        versions = builder.get("version", {})
        bases = {
            str(found["uri"]).removeprefix("docker://"): f"sha256:{found['digest']['sha256']}"
            for found in definition["resolvedDependencies"]
            if str(found.get("uri", "")).startswith("docker://")
        }
        return Origin(
            asked=str(outer["image"]),
            sets=tuple(map(str, outer["set"])),
            id=str(inner["id"]),
            key=str(inner["contentKey"]),
            platform=str(inner["platform"]),
            revision=str(outer["revision"]),
            builder=str(builder["id"]),
            dlc=str(versions.get("dlc", "")),
            uv=str(versions.get("uv", "")),
            bases=bases,
            names=tuple(map(str, inner.get("names", ()))),
        )
    except (KeyError, TypeError, AttributeError):
        raise ValueError("JSON that is no provenance of dlc") from None


def explain_other_tools(origin: Origin, tree: Tree) -> str:
    """Tell by which dlc and uv an image was made, and which ones this is; empty if they are the same."""
    here = (dlc.__version__, read_uv_version(tree))
    if (origin.dlc, origin.uv) == here:
        return ""
    uv = f"uv {origin.uv}" if origin.uv else "a uv that it does not record"
    return (
        f"the image was made by dlc {origin.dlc or '(unknown)'} with {uv}, and this is dlc {here[0]} with uv {here[1]}"
    )


def _is_hex(text: str) -> bool:
    return len(text) in (40, 64) and set(text) <= set("0123456789abcdef")
