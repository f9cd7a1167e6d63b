"""What all pages share: head, navigation, foot; the names of the files beside them. Pure."""

from __future__ import annotations

from dlc.site.documents import relative_path
from dlc.site.elements import Child, Html, join, tag
from dlc.site.values import Catalogue

STYLE, SCRIPT, INDEX = "assets/style.css", "assets/site.js", "assets/search-index.js"
HOME, VERIFIED, DOCUMENTS, SEARCH = "index.html", "verified.html", "docs/index.html", "search.html"
MEASUREMENTS = "docs/measurements.html"
# Nothing comes from elsewhere, and no page runs a script that is not in the folder.
POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'"
NAME = "dlc catalogue"
# As the frameworks write themselves.
FRAMEWORKS = {"pytorch": "PyTorch", "tensorflow": "TensorFlow"}


def render_page(catalogue: Catalogue, path: str, title: str, *body: Child, scripts: tuple[str, ...] = ()) -> str:
    """Return a whole page. `scripts` are those that it needs besides the one of all pages."""

    def lead(target: str) -> str:
        return relative_path(target, path)

    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("title", f"{title} \u00b7 {NAME}" if title != NAME else NAME),
        tag("link", rel="stylesheet", href=lead(STYLE)),
        [tag("script", src=lead(script), defer=True) for script in (*scripts, SCRIPT)],
    )
    skip = tag("a", "to the text", href="#text", class_="skip")
    whole = tag("body", skip, _render_top(catalogue, path), tag("main", body, id="text"), _render_foot(catalogue))
    return f"<!doctype html>\n{tag('html', head, whole, lang='en')}\n"


def _render_top(catalogue: Catalogue, path: str) -> Html:
    places = {"Images": HOME, "Verified": VERIFIED}
    if catalogue.documents:
        places |= {"Documents": DOCUMENTS}
    if "docs/measurements.md" in catalogue.documents:
        places |= {"Measurements": MEASUREMENTS}
    links = [
        tag("a", name, href=relative_path(target, path), aria_current="page" if target == path else None)
        for name, target in places.items()
    ]
    field = tag("input", type="search", name_="q", placeholder="search", aria_label="search", autocomplete="off")
    form = tag("form", field, action=relative_path(SEARCH, path), role="search")
    home = tag("a", NAME, href=relative_path(HOME, path), class_="home")
    return tag("header", home, tag("nav", links, aria_label="pages"), form)


def _render_foot(catalogue: Catalogue) -> Html:
    commit = f", commit {catalogue.revision[:12]}" if catalogue.revision else ""
    asked = "" if catalogue.engine else " No engine was asked: sizes, licences and digests of images are not shown."
    return tag("footer", f"Made on {catalogue.day} by dlc {catalogue.version}{commit}.{asked}")


def make_tiles(figures: dict[str, Child]) -> Html:
    """Return the figures of a page that one looks for first: what -> figure."""
    tiles = [tag("div", tag("b", value), tag("span", name), class_="tile") for name, value in figures.items()]
    return tag("div", tiles, class_="tiles")


def make_badge(kind: str, *text: Child) -> Html:
    """Return a word with a colour: good, note, bad, or plain."""
    return tag("span", text, class_=f"badge {kind}")


def make_section(title: str, *body: Child, anchor: str = "") -> Html:
    """Return a part of a page with its heading; nothing if it has no body."""
    inner = join(body)
    return tag("section", tag("h2", title, id=anchor or title.lower().replace(" ", "-")), inner) if inner else inner
