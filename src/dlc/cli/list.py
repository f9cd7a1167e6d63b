"""`dlc list`: the images of the buildspec, and what the engine has of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from dlc.cli.shared.arguments import add_globs, add_json, add_set, fill_globs, print_json, print_text, terminal_columns
from dlc.core.errors import LockError
from dlc.core.platforms import PLATFORMS
from dlc.core.text import format_bytes, format_table

if TYPE_CHECKING:
    from dlc.buildspec.variant import Variant
    from dlc.core.checkout import Tree
    from dlc.engine.images import Image

HELP = "list all images: which are built, from what the files here say now or before, their size and commit"
EXAMPLE = "dlc list 'pytorch-*'"
# Characters, as docker shows it.
DIGEST_LENGTH = 12
# Row -> its heading, if that is another word. `lock` says whether the lock fits the files here, `digest` is the name
# that the engine gives the image, which no registry knows, and `created` is the time of the commit.
HEADINGS = {"state": "IMAGE", "digest": "IMAGE ID", "created": "COMMIT DATE", "lock": "LOCK FILE"}
# An image of no commit has this date.
NO_DATE = "1970-01-01"
# Columns that a narrow terminal does without, the first ones first: `dlc list ID` shows them.
LEAST = ("ref", "platforms", "lock", "digest", "os", "created", "framework", "python")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add GLOB, --set, --why, --gpu, --ids or --json."""
    add_globs(parser)
    add_set(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--ids", action="store_true", help="print the identifiers and nothing else, one per line")
    add_json(form)
    parser.add_argument("--why", action="store_true", help="say what images lack, and why; said of one image anyway")
    parser.add_argument("--gpu", action="store_true", help="show for which GPUs the built CUDA images hold code")


def run(args: argparse.Namespace) -> int:
    """Print one line per image. No engine is started; without one, the columns of built images are left out."""
    from dlc.buildspec.matrix import load_variants
    from dlc.core.checkout import read_workspace

    tree = read_workspace()
    fill_globs(args, tree)
    variants = load_variants(tree, args.globs, args.sets, args.platform)
    if args.ids:
        print("\n".join(variant.id for variant in variants))
        return 0
    if args.gpu:
        rows = make_gpu_rows(variants)
        print_json(rows) if args.json else print_text(as_text(rows))
        return 0
    built = _read_built([variant.ref for variant in variants])
    states = find_states(variants, tree, built or {})
    if args.json:
        found = built or {}
        print_json(
            [as_json(describe_planned(each, tree), found.get(each.ref), each, states.get(each.id)) for each in variants]
        )
        return 0
    rows = [describe_planned(variant, tree) for variant in variants]
    if built is not None:
        rows = [
            {"id": row["id"], "state": states.get(each.id, "-"), **row, **format_built(built.get(each.ref))}
            for row, each in zip(rows, variants, strict=True)
        ]
    print_text("\n".join([as_text(rows), *_make_notes(variants, shown=args.why)]), {"ID": "head"})
    return 0


def _make_notes(variants: Sequence[Variant], *, shown: bool) -> list[str]:
    """Return what the images lack; of several images, unless it is asked for, a line that says how to see it."""
    notes = [*note_unavailable(variants), *note_missing(variants), *note_unsupported(variants)]
    notes += note_platforms(variants)
    if shown or len(variants) == 1 or not notes:
        return notes
    return [f"{len(notes)} notes on what they lack: dlc list --why, or dlc list ID"]


def make_gpu_rows(variants: Sequence[Variant]) -> list[dict[str, str]]:
    """Make a line for each CUDA image. Raises SelectorError if none is selected, EngineError if no engine answers."""
    from dlc.core.errors import SelectorError
    from dlc.engine import connection, images
    from dlc.inspection import gpu

    cuda = [variant for variant in variants if variant.settings.device != "cpu"]
    if not cuda:
        raise SelectorError("expected an image for GPUs, found images for the CPU alone", "dlc list --gpu '*-cu*'")
    engine = connection.connect(start=False)
    built = images.find_images(engine, [variant.ref for variant in cuda])
    return [gpu.make_gpu_row(v.id, gpu.read_gpu_code(engine, v.ref) if v.ref in built else None) for v in cuda]


def find_states(variants: Sequence[Variant], tree: Tree, built: Mapping[str, Image]) -> dict[str, str]:
    """Return of each image that the engine has whether a build would leave it (`built`) or make it anew (`stale`).

    Only a build asks what the tag of a base image means now: without that it is `unknown`.
    """
    from dlc.buildspec.lockfile import explain_staleness
    from dlc.plan.plan import plan_variants

    there = [variant for variant in variants if variant.ref in built]
    states = {variant.id: "stale" for variant in there}
    for variant in there:
        if explain_staleness(tree, variant):
            continue
        with suppress(LockError):
            target = plan_variants([variant], tree).target(variant.id)
            same = built[variant.ref].key == target.key
            states[variant.id] = "built" if same else "unknown" if variant.settings.base.image else "stale"
    return states


def describe_planned(variant: Variant, tree: Tree) -> dict[str, str]:
    """Return what the buildspec says of an image."""
    from dlc.buildspec.lockfile import explain_staleness

    return {
        "id": variant.id,
        "framework": variant.framework_requirements[0],
        "device": variant.settings.device,
        "python": variant.settings.python,
        "os": variant.settings.base.image or variant.suite,
        "lock": "stale" if explain_staleness(tree, variant) else "fresh",
        "platforms": ", ".join(PLATFORMS[name].architecture for name, why in variant.platforms.items() if not why),
        "ref": variant.ref,
    }


def format_built(image: Image | None) -> dict[str, str]:
    """Format the built image for people: bytes of its layers unpacked, the start of its digest, minutes in UTC."""
    if image is None:
        return dict.fromkeys(("size", "digest", "created"), "-")
    digest = image.digest.removeprefix("sha256:")[:DIGEST_LENGTH]
    created = "-" if image.created.startswith(NO_DATE) else image.created[:16].replace("T", " ")
    return {"size": f"{format_bytes(image.size)}", "digest": digest, "created": created}


def as_json(row: dict[str, str], image: Image | None, variant: Variant, state: str | None) -> dict[str, object]:
    """Return the same for programs: size in bytes, the whole digest, null for what no running engine has."""
    size, digest, created = (image.size, image.digest, image.created) if image else (None, None, None)
    built = {"state": state, "size": size, "digest": digest, "created": created}
    header = variant.header
    platforms = {name: why or True for name, why in variant.platforms.items()}
    absent = {"unavailable": dict(header.unavailable), "missing": variant.missing, "unsupported": header.unsupported}
    return {**row, **built, **absent, "platforms": platforms}


def _read_built(refs: Sequence[str]) -> dict[str, Image] | None:
    """Return what the running engine has; None without an engine. If it does not answer, print a note and go on."""
    from dlc.core.errors import EngineError, ProcessError
    from dlc.engine import connection, images

    try:
        engine = connection.find_engine()
        return images.find_images(engine, refs, connection.QUICK_SECONDS) if engine else None
    except (EngineError, ProcessError) as error:
        # An image may go between two questions.
        print(f"dlc: no sizes and digests: {error}", file=sys.stderr)
        return None


def note_unavailable(variants: Sequence[Variant]) -> list[str]:
    """Return a line for each thing that a version cannot have, with the reason."""
    headers = {f"{v.header.framework} {v.header.version}": v.header.unavailable for v in variants}
    return [f"no {what} for {name}: {why}" for name, absent in headers.items() for what, why in absent.items()]


def note_missing(variants: Sequence[Variant]) -> list[str]:
    """Return a line for each package missing from some images of a framework but present in others, with the reason."""
    lacks = _group_by_lack((variant.id, variant.missing) for variant in variants)
    return [f"no {name} in {', '.join(ids)}: {why}" for (name, why), ids in lacks.items()]


def _group_by_lack(found: Iterable[tuple[str, Mapping[str, str]]]) -> dict[tuple[str, str], list[str]]:
    """Return the images of each thing that they lack for the same reason."""
    lacks: dict[tuple[str, str], list[str]] = {}
    for image, lacking in found:
        for name, why in lacking.items():
            if why:
                lacks.setdefault((name, why), []).append(image)
    return lacks


def note_unsupported(variants: Sequence[Variant]) -> list[str]:
    """Return a line for each framework version that gets no fixes any more, with the reason."""
    headers = {f"{v.header.framework} {v.header.version}": v.header.unsupported for v in variants}
    return [f"{name} is unsupported: {why}" for name, why in headers.items() if why]


def note_platforms(variants: Sequence[Variant]) -> list[str]:
    """Return a line for each platform that images cannot be had for, with the reason."""
    lacks = _group_by_lack((variant.id, variant.platforms) for variant in variants)
    return [f"no {name} for {', '.join(ids)}: {why}" for (name, why), ids in lacks.items()]


def as_text(rows: list[dict[str, str]]) -> str:
    """Put rows under their names; a narrow terminal gets the columns that fit into it."""
    columns = terminal_columns()
    names = choose_columns(rows, columns)
    return format_table(
        [_head_column(name) for name in names], [[row[name] for name in names] for row in rows], columns
    )


def _head_column(name: str) -> str:
    return HEADINGS.get(name, name.upper())


def choose_columns(rows: list[dict[str, str]], columns: int | None) -> list[str]:
    """Return the names of columns that fit side by side: the first ones of LEAST are left out until they do.

    A stale lock is always shown. All are left for a paragraph per image: of one image, and if nothing fits.
    """
    names = list(rows[0])
    if len(rows) == 1:
        return names
    kept = {"lock"} if any(row.get("lock") == "stale" for row in rows) else set()
    widths = {name: max(len(_head_column(name)), *(len(row[name]) for row in rows)) + 2 for name in names}
    chosen = names
    for left_out in ("", *LEAST):
        chosen = [name for name in chosen if name != left_out or name in kept]
        if columns is None or sum(widths[name] for name in chosen) - 2 <= columns:
            return chosen
    return names
