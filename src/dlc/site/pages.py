"""The whole site as a value: every file by its path, and what the next catalogue in the same folder remembers. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from dlc.inspection.sbom import render_json
from dlc.site import assets, frame, overview
from dlc.site.checks import finding_key
from dlc.site.documents import render_document
from dlc.site.image_page import render_image
from dlc.site.values import Catalogue, Entry, Memory, Sighting
from dlc_runtime.compiler.report.page_style import COLORS, ELEMENTS

# By this file a folder is known as a site; it has what the pages say, for programs, and the catalogue's memory.
SIGN, MADE_BY = "catalogue.json", "dlc site"
FORM = 1


def list_pages(catalogue: Catalogue) -> dict[str, bytes]:
    """Return the content of every file of the site, by its path."""
    documents = [render_document(path, text, catalogue.documents.keys(), catalogue.files.keys())
                 for path, text in sorted(catalogue.documents.items())]  # fmt: skip
    index = json.dumps(overview.list_index(catalogue, documents), separators=(",", ":"))
    texts = {
        frame.HOME: overview.render_home(catalogue),
        frame.VERIFIED: overview.render_verified(catalogue),
        frame.SEARCH: overview.render_search(catalogue),
        frame.STYLE: f"{COLORS}{ELEMENTS}{assets.STYLE}".lstrip(),
        frame.SCRIPT: assets.SCRIPT.lstrip(),
        frame.INDEX: f"const DLC_INDEX = {index};\n",
        SIGN: render_sign(catalogue),
    }
    texts |= {entry.path: render_image(entry, catalogue) for entry in catalogue.entries}
    texts |= {entry.bill_path: render_json(entry.built.facts) for entry in catalogue.entries if entry.built}
    texts |= {document.path: overview.render_document_page(document, catalogue) for document in documents}
    if documents:
        texts[frame.DOCUMENTS] = overview.render_documents(catalogue, documents)
    linked = {path: catalogue.files[path] for path in sorted({path for each in documents for path in each.linked})}
    return {path: text.encode() for path, text in texts.items()} | linked


def render_sign(catalogue: Catalogue) -> str:
    """Return the JSON about all images."""
    images = {entry.id: _describe_entry(entry, catalogue.day) for entry in catalogue.entries}
    others = {identifier: _write_memory(memory) for identifier, memory in catalogue.memory.items()
              if identifier not in images}  # fmt: skip
    head = {"made_by": MADE_BY, "form": FORM, "day": catalogue.day, "revision": catalogue.revision}
    return json.dumps({**head, "images": images, "not_shown": others}, indent=1) + "\n"


def _describe_entry(entry: Entry, day: str) -> dict[str, object]:
    built = entry.built
    return {
        "ref": entry.variant.ref,
        "key": entry.key,
        "digest": built.facts.digest if built else None,
        "bytes": built.facts.bytes if built else None,
        **_write_memory(add_to_memory(entry, day)),
    }


def _write_memory(memory: Memory) -> dict[str, object]:
    digests = [asdict(sighting) for sighting in memory.digests]
    return {"digests": digests, "findings": dict(sorted(memory.findings.items()))}


def add_to_memory(entry: Entry, day: str) -> Memory:
    """Return what is remembered of an image, with what is seen on this day."""
    digests, built, scan = entry.memory.digests, entry.built, entry.checks.scan
    if built and all(each.digest != built.facts.digest for each in digests):
        digests = (*digests, Sighting(built.facts.digest, day, built.facts.bytes))
    if scan is None:
        return Memory(digests, entry.memory.findings)
    # What a scan finds no more is forgotten: if it comes back, it is new.
    seen = {finding_key(finding): scan.day or day for _, finding, _ in scan.scan.verdict.list_states()}
    return Memory(digests, {key: entry.memory.findings.get(key, first) for key, first in seen.items()})


def read_memory(text: str) -> Mapping[str, Memory] | None:
    """Return what the file of an earlier catalogue remembers, by image; None if the file is none of a catalogue."""
    try:
        value: Any = json.loads(text)
        if value["made_by"] != MADE_BY:
            return None
        return {
            identifier: Memory(
                tuple(Sighting(str(each["digest"]), str(each["day"]), int(each["bytes"])) for each in row["digests"]),
                {str(key): str(first) for key, first in row["findings"].items()},
            )
            for identifier, row in {**value["not_shown"], **value["images"]}.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
