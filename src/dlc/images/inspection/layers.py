"""The files that the layers of an image make together, and the bytes that are stored but never seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlc.images.inspection.archive import OPAQUE, WHITEOUT, Entry, Layer


@dataclass(frozen=True)
class Hidden:
    """A file that a higher layer writes again or deletes: its bytes are stored and never read."""

    path: str
    bytes: int
    layer: int  # index of the layer that holds it, from the lowest
    by: int  # index of the layer that hides it
    deleted: bool  # else written again


def resolve(layers: Sequence[Layer]) -> tuple[Mapping[str, Entry], tuple[Hidden, ...]]:
    """The files that a container sees, by path, and those that it does not."""
    seen: dict[str, tuple[int, Entry]] = {}
    hidden: list[Hidden] = []
    for index, layer in enumerate(layers):
        # Deletions concern lower layers, whatever their place in this one.
        for path in layer.entries:
            for gone in _deleted(path, seen):
                hidden.append(_hide(gone, seen.pop(gone), index, deleted=True))
        for path, entry in layer.entries.items():
            if path.rpartition("/")[2].startswith(WHITEOUT):
                continue
            if path in seen:
                hidden.append(_hide(path, seen[path], index, deleted=False))
            seen[path] = (index, entry)
    files = {path: entry for path, (_, entry) in seen.items()}
    return files, tuple(item for item in hidden if item.bytes)


def _deleted(path: str, seen: Mapping[str, tuple[int, Entry]]) -> list[str]:
    """Paths of lower layers that this entry deletes: none unless it is a whiteout."""
    folder, slash, name = path.rpartition("/")
    if not name.startswith(WHITEOUT):
        return []
    target = folder if name == OPAQUE else folder + slash + name.removeprefix(WHITEOUT)
    below = [known for known in seen if known.startswith(f"{target}/")]
    return below if name == OPAQUE else [*below, *([target] if target in seen else [])]


def _hide(path: str, place: tuple[int, Entry], by: int, *, deleted: bool) -> Hidden:
    return Hidden(path, place[1].size, place[0], by, deleted)
