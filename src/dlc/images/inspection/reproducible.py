"""Builds an image twice without any cache and compares: equal digests, or the files that differ."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import zip_longest
from pathlib import Path
from typing import Any

from dlc.build import bake_file, host_inputs
from dlc.build.bake_file import HostInputs
from dlc.build.buildkit_log import Step
from dlc.build.buildx import choose_exporter, run_bake
from dlc.core.atomic_files import scratch_folder
from dlc.core.checkout import Tree
from dlc.engine.connection import Engine
from dlc.images.inspection.archive import Archive, Entry, export_archive
from dlc.plan.plan import Plan

# The name of an image while it is compared.
REPOSITORY = "dlc-rebuild"
Json = Mapping[str, Any]


@dataclass(frozen=True)
class Difference:
    """One difference between two archives. `layer` counts from 0; -1 is the configuration."""

    layer: int
    command: str
    path: str
    what: str


def build_from_nothing(
    plan: Plan, engine: Engine, tree: Tree, log: Path, *, epoch: int, revision: str,
    cached: bool = False, on_step: Callable[[Step], None] = lambda _: None,
) -> Archive:  # fmt: skip
    """Build the one selected image of `plan`, under a name that is removed afterwards; return it as an archive.

    Of earlier builds only downloads are used, which locks and signatures pin: every step runs, and the base file
    system is made again. With `cached`, steps that the engine has in its cache do not run. Needs the image's size in
    TMPDIR. Raises as `build` does.
    """
    ref = f"{REPOSITORY}:{uuid.uuid4().hex}"
    with scratch_folder("dlc-rebuild-") as folder:
        inputs = host_inputs.collect(plan, tree, folder)
        text = render_rebuild(
            plan, inputs, ref, choose_exporter(engine), epoch=epoch, revision=revision, cached=cached
        )  # fmt: skip
        try:
            run_bake(text, engine, log, on_step)
            return export_archive(engine, ref)
        finally:
            engine.docker("image", "rm", ref, check=False)


def render_rebuild(
    plan: Plan, inputs: HostInputs, ref: str, output: str, *, epoch: int, revision: str, cached: bool
) -> str:  # fmt: skip
    """Return the bake file of such a build. Pure."""
    value: dict[str, Any] = bake_file.render(plan, inputs, output=output, epoch=epoch, revision=revision)
    for target in value["target"].values():
        target |= {"tags": [ref]} if "tags" in target else {}
        target |= {} if cached else {"no-cache": True}
    return json.dumps(value, indent=1)


def find_differences(first: Archive, second: Archive) -> tuple[Difference, ...]:
    """Return all differences; empty if both are equal bit for bit."""
    if first.digest == second.digest:
        return ()
    found = [difference for index in range(max(len(first.layers), len(second.layers)))
             for difference in _compare_layer(index, first, second)]  # fmt: skip
    return (*found, *_compare_configs(first.config, second.config))


def _compare_configs(first: Json, second: Json) -> Iterator[Difference]:
    """Yield the parts of two configurations that differ; layers are compared by themselves."""
    for key in sorted({*first, *second} - {"rootfs"}):
        if first.get(key) != second.get(key):
            yield Difference(-1, "configuration", key, f"{first.get(key)} -> {second.get(key)}")


def compare_with_pushed(archive: Archive, config: Json) -> tuple[Difference, ...]:
    """Return all differences between an archive and an image of which a registry has the configuration.

    The diff ids in it are the digests of uncompressed layers: a push compresses them in its own way.
    """
    layers = compare_with_built(archive, config["rootfs"]["diff_ids"], "the pushed image")
    return (*layers, *_compare_configs(config, archive.config))


def compare_with_built(
    archive: Archive, diff_ids: Sequence[str], other: str = "the engine's image"
) -> tuple[Difference, ...]:
    """Return the layers in which another image differs from an archive, by its diff ids."""
    own = [layer.digest for layer in archive.layers]
    commands = [layer.command for layer in archive.layers] + [""] * len(diff_ids)
    return tuple(
        Difference(index, commands[index], "", f"{other} has {there}, this build {here}")
        for index, (here, there) in enumerate(zip_longest(own, diff_ids, fillvalue="none")) if here != there
    )  # fmt: skip


def _compare_layer(index: int, first: Archive, second: Archive) -> Iterator[Difference]:
    if index >= min(len(first.layers), len(second.layers)):
        which = "first" if index < len(first.layers) else "second"
        yield Difference(index, "", "", f"only in the {which} image")
        return
    one, other = first.layers[index], second.layers[index]
    if one.digest == other.digest:
        return
    paths = [*one.entries, *(path for path in other.entries if path not in one.entries)]
    found = [
        (path, what) for path in paths if (what := _describe_change(one.entries.get(path), other.entries.get(path)))
    ]
    for path, what in found or [("", "the order of the entries, or their extended attributes")]:
        yield Difference(index, one.command, path, what)


def _describe_change(one: Entry | None, other: Entry | None) -> str:
    """Describe what differs; empty if nothing does."""
    if one is None or other is None:
        return "only in the second image" if one is None else "only in the first image"
    changed = [field.name for field in fields(Entry) if getattr(one, field.name) != getattr(other, field.name)]
    if "sha256" in changed:
        changed = ["content", *(name for name in changed if name not in ("sha256", "size"))]
    return ", ".join(
        f"content ({one.size} -> {other.size} bytes)" if name == "content"
        else f"{name} ({getattr(one, name)} -> {getattr(other, name)})"
        for name in changed
    )  # fmt: skip


def group_by_layer(found: tuple[Difference, ...]) -> dict[tuple[int, str], list[Difference]]:
    """Group differences by layer and its command."""
    grouped: dict[tuple[int, str], list[Difference]] = {}
    for difference in found:
        grouped.setdefault((difference.layer, difference.command), []).append(difference)
    return grouped
