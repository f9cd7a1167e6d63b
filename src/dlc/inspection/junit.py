"""pytest's report, JUnit XML, by image: each test of an image has the image's identifier in its name. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

DAY = re.compile(r"\d{4}-\d\d-\d\d")
FORBIDDEN = ("<!DOCTYPE", "<!ENTITY")


@dataclass(frozen=True)
class ImageTests:
    """The tests of one image, by their names."""

    # On which they were run; empty if the report does not say.
    day: str
    passed: tuple[str, ...]
    failed: tuple[str, ...]
    skipped: int


def read_report(text: str, identifiers: Collection[str]) -> Mapping[str, ImageTests]:
    """Return the tests of each image that the report has some of. Raises ValueError for another text."""
    # pytest writes neither; entities could grow without end.
    if any(word in text for word in FORBIDDEN):
        raise ValueError("expected pytest's report as XML, found a document type, which pytest does not write")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - without entities, as above
    except ElementTree.ParseError as error:
        raise ValueError(f"expected pytest's report as XML, found {error}") from None
    if root.tag not in ("testsuites", "testsuite"):
        raise ValueError(f"expected pytest's report as XML, found <{root.tag}> in place of <testsuites>")
    day = next((match[0] for suite in root.iter("testsuite") if (match := DAY.match(suite.get("timestamp", "")))), "")
    cases: dict[str, list[ElementTree.Element]] = {}
    # The longest first: pytorch-2.9-...-py311 is a part of pytorch-2.9-...-py311-xla.
    ordered = sorted(identifiers, key=len, reverse=True)
    for case in root.iter("testcase"):
        if owner := next((each for each in ordered if each in case.get("name", "")), None):
            cases.setdefault(owner, []).append(case)
    return {owner: _sort_cases(own, day) for owner, own in cases.items()}


def _sort_cases(cases: Collection[ElementTree.Element], day: str) -> ImageTests:
    passed, failed, skipped = dict[str, None](), dict[str, None](), 0
    for case in cases:
        name = "::".join(filter(None, (case.get("classname"), case.get("name"))))
        if case.find("failure") is not None or case.find("error") is not None:
            failed[name] = None
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed[name] = None
    # A test that passed and could not be torn down has two cases.
    return ImageTests(day, tuple(name for name in passed if name not in failed), tuple(failed), skipped)
