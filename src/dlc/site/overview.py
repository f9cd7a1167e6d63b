"""The pages about all images and documents: the start, what is verified, the list of documents, the search. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlc.buildspec.versions import parse_number
from dlc.core import labels
from dlc.core.text import format_bytes
from dlc.site import checks, frame
from dlc.site.documents import Document, relative_path
from dlc.site.elements import Child, Html, make_table, tag
from dlc.site.frame import make_badge, make_section, make_tiles, render_page
from dlc.site.values import Catalogue, Entry

# Folder of documents -> its heading in the list; others are under their folder's name.
FOLDERS = {
    "": "The project",
    "docs": "Guides and references",
    "docs/clusters": "Clusters",
    "docs/lint": "Rules of dlc lint",
    "docs/decisions": "Decisions",
    "examples": "Examples",
}


def render_home(catalogue: Catalogue) -> str:
    """Return the start: a row for each image."""
    built = [entry.built for entry in catalogue.entries if entry.built]
    figures: dict[str, Child] = {"images": len(catalogue.entries)}
    if catalogue.engine:
        figures |= {"built": len(built), "unpacked": format_bytes(sum(each.facts.bytes for each in built))}
    scans = [entry.checks.scan for entry in catalogue.entries if entry.checks.scan]
    if scans:
        figures["advisories open"] = sum(len(result.scan.verdict.against) for result in scans)
    figures["supported"] = sum(not entry.variant.header.unsupported for entry in catalogue.entries)
    ordered = sorted(catalogue.entries, key=_sort_key)
    sections = []
    for framework in dict.fromkeys(entry.variant.header.framework for entry in ordered):
        own = [entry for entry in ordered if entry.variant.header.framework == framework]
        heads = ("image", "version", "device", "Python", "system", "size", "state", "scan")
        table = make_table(heads, [_list_cells(entry) for entry in own], class_="cards dense")
        sections.append(make_section(frame.FRAMEWORKS.get(framework, framework), table))
    body = (
        tag("h1", "Training images"),
        tag("p", "Each image has a page: its digests and size, what is new, its licences, faults and tests."),
        make_tiles(figures),
        sections,
    )
    return render_page(catalogue, frame.HOME, frame.NAME, body)


def _sort_key(entry: Entry) -> tuple[str, object, str]:
    version = parse_number(entry.variant.header.version)
    # The newest first.
    return entry.variant.header.framework, tuple(-part for part in version.release), entry.id


def _list_cells(entry: Entry) -> tuple[Child, ...]:
    settings = entry.variant.settings
    return (
        tag("a", entry.id, href=entry.path),
        entry.variant.framework_requirements[0].partition("==")[2] or entry.variant.header.version,
        settings.device.replace("cpu", "CPU"),
        settings.python,
        settings.base.image or entry.variant.suite,
        format_bytes(entry.built.facts.bytes) if entry.built else "\u2013",
        make_state(entry),
        checks.show_scan(entry),
    )


def make_state(entry: Entry) -> Html:
    """Return one word for where an image stands."""
    if entry.variant.header.unsupported:
        return make_badge("bad", "unsupported")
    if entry.stale:
        return make_badge("note", "stale lock")
    if entry.built is None:
        return make_badge("plain", "not built")
    is_current = entry.built.facts.labels.get(labels.KEY) == entry.key
    return make_badge("good", "built") if is_current else make_badge("note", "older build")


def render_verified(catalogue: Catalogue) -> str:
    """Return the table of what was proved of each image."""
    heads = ("image", "digest", "signed by", "reproducible", "tests", "scan")
    rows = [
        (
            tag("a", entry.id, href=entry.path),
            tag("code", entry.built.facts.digest.removeprefix("sha256:")[:12]) if entry.built else "\u2013",
            checks.show_signature(entry),
            checks.show_rebuild(entry),
            checks.show_tests(entry),
            checks.show_scan(entry),
        )
        for entry in sorted(catalogue.entries, key=_sort_key)
    ]
    text = "What was checked, by records that other verbs wrote. \u201cNo record\u201d is no judgement: nobody told."
    body = tag("h1", "Verified"), tag("p", text), make_table(heads, rows, class_="cards")
    return render_page(catalogue, frame.VERIFIED, "Verified", body)


def render_documents(catalogue: Catalogue, documents: Sequence[Document]) -> str:
    """Return the list of documents by folder."""
    grouped: dict[str, list[Document]] = {folder: [] for folder in FOLDERS}
    for document in documents:
        grouped.setdefault(document.path.rpartition("/")[0], []).append(document)
    sections = []
    for folder, found in grouped.items():
        links = [tag("a", each.title, href=relative_path(each.path, frame.DOCUMENTS)) for each in found]
        if links:
            lines = tag("ul", [tag("li", link) for link in links], class_="columns")
            sections.append(make_section(FOLDERS.get(folder, folder), lines))
    return render_page(catalogue, frame.DOCUMENTS, "Documents", tag("h1", "Documents"), sections)


def render_document_page(document: Document, catalogue: Catalogue) -> str:
    """Return the page of a document, with a list of its parts if it has several."""
    parts = [section for section in document.sections if section.level == 2]
    links = [tag("li", tag("a", section.title, href=f"#{section.anchor}")) for section in parts]
    contents = tag("details", tag("summary", "On this page"), tag("ul", links), class_="contents")
    body = tag("article", document.body, class_="document")
    return render_page(catalogue, document.path, document.title, contents if len(links) > 2 else None, body)


def render_search(catalogue: Catalogue) -> str:
    """Return the page that searches the index in the reader's browser."""
    body = (
        tag("h1", "Search"),
        tag("p", tag("input", type="search", id="query", aria_label="words", class_="search-page")),
        tag("p", "The search needs scripts.", id="status", class_="faint", role="status"),
        tag("ul", id="found", class_="found"),
    )
    return render_page(catalogue, frame.SEARCH, "Search", body, scripts=(frame.INDEX,))


def list_index(catalogue: Catalogue, documents: Sequence[Document]) -> list[Mapping[str, object]]:
    """Return what the search knows: the parts of documents, and the images with their packages."""
    found: list[Mapping[str, object]] = []
    for document in documents:
        for section in document.sections:
            address = document.path + (f"#{section.anchor}" if section.anchor and section.level > 1 else "")
            found.append({"address": address, "page": document.title, "title": section.title or document.title,
                          "level": section.level, "text": " ".join(section.text.split())})  # fmt: skip
    for entry in catalogue.entries:
        packages = ", ".join(f"{name} {version}" for name, version in sorted(entry.locked.items()))
        found.append({"address": entry.path, "page": entry.id, "title": entry.id, "level": 1, "text": packages})
    return found
