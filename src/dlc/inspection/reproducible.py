"""Builds an image twice without any cache and compares: equal digests, or the files that differ."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from dlc.core.atomic_files import scratch_folder
from dlc.core.checkout import Tree
from dlc.core.errors import SpecError
from dlc.engine.docker_client import Engine
from dlc.image_build import bake_file, host_inputs
from dlc.image_build.bake_file import HostInputs
from dlc.image_build.buildkit_log import Step
from dlc.image_build.buildx import choose_exporter, run_bake
from dlc.inspection.archive import Archive, Entry, export_archive
from dlc.plan.plan import Plan

# The name of an image while it is compared.
REPOSITORY = "dlc-rebuild"
# The stage of the lowest layer, as a Dockerfile begins it, and what comes first in it in a rebuild: see `mark_layers`.
LOWEST = "FROM scratch AS skeleton\n"
MARK, MARK_CONTEXT = ".dlc-rebuild", "rebuild-mark"
MARKED = f"{LOWEST}COPY --from={MARK_CONTEXT} . /\n"
# As Go's encoder writes these in a text.
GO_ESCAPES = {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"}
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
    system is made again. With `cached`, steps that the engine has in its cache do not run. The digest is the one that
    the engine gives an image of `dlc build`. Needs the image's size in TMPDIR. Raises as `build` does.
    """
    ref = f"{REPOSITORY}:{uuid.uuid4().hex}"
    marked = not cached and not engine.containerd_store
    with scratch_folder("dlc-rebuild-") as folder:
        inputs = host_inputs.collect(plan, tree, folder)
        if marked:
            inputs = mark_layers(inputs, folder)
        text = render_rebuild(
            plan, inputs, ref, choose_exporter(engine), epoch=epoch, revision=revision, cached=cached,
            contexts={MARK_CONTEXT: str(folder / MARK_CONTEXT)} if marked else {},
        )  # fmt: skip
        try:
            run_bake(text, engine, log, on_step)
            archive = export_archive(engine, ref)
        finally:
            engine.docker("image", "rm", ref, check=False)
    if engine.containerd_store:
        return archive
    archive = remove_mark(archive) if marked else archive
    return replace(archive, digest=hash_config(archive.config))


def mark_layers(inputs: HostInputs, folder: Path) -> HostInputs:
    """Return the inputs of a build whose layers are no other build's: a file of its own lies below all of them.

    A step that runs again makes a second copy of its layer. Docker's classic store gives both the one name of the
    first copy, and after a restart writes what is built on the second one in another order (docs/decisions/0047).
    The file is made in `folder`. Raises SpecError unless one Dockerfile has the stage of the lowest layer.
    """
    texts = {name: path.read_text() for name, path in inputs.dockerfiles.items()}
    found = [name for name, text in texts.items() if LOWEST in text]
    if len(found) != 1:
        raise SpecError(
            f"{', '.join(found or texts)}: expected one Dockerfile with a line `{LOWEST.strip()}`, found {len(found)}",
            "begin the lowest layer of the Dockerfile with this line",
        )
    mark = folder / MARK_CONTEXT / MARK
    mark.parent.mkdir()
    mark.write_text(uuid.uuid4().hex)
    # No step sets the times of files that are so old.
    os.utime(mark, (0, 0))
    changed = folder / "marked.Dockerfile"
    changed.write_text(texts[found[0]].replace(LOWEST, MARKED))
    return replace(inputs, dockerfiles={**inputs.dockerfiles, found[0]: changed})


def remove_mark(archive: Archive) -> Archive:
    """Return an image without the layer of `mark_layers`, which is its lowest one."""
    rootfs = archive.config["rootfs"]
    config = {
        **archive.config,
        "history": archive.config["history"][1:],
        "rootfs": {**rootfs, "diff_ids": rootfs["diff_ids"][1:]},
    }
    return Archive(archive.digest, config, archive.layers[1:])


def hash_config(config: Json) -> str:
    """Return the digest that the classic store gives an image of this configuration, whose keys are in their order."""
    text = json.dumps(config, separators=(",", ":"), ensure_ascii=False)
    for character, escaped in GO_ESCAPES.items():
        text = text.replace(character, escaped)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def render_rebuild(
    plan: Plan, inputs: HostInputs, ref: str, output: str, *, epoch: int, revision: str, cached: bool,
    contexts: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """Return the bake file of such a build; `contexts` are further ones of each target. Pure."""
    value: dict[str, Any] = bake_file.render(plan, inputs, output=output, epoch=epoch, revision=revision)
    for target in value["target"].values():
        target |= {"tags": [ref]} if "tags" in target else {}
        target |= {} if cached else {"no-cache": True}
        target["contexts"] |= contexts or {}
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
