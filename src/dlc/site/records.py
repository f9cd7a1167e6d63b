"""Records: what other verbs and pytest printed about images, as files of a folder. Each says by its form what it is.

| record | printed by |
|---|---|
| JUnit XML of container tests | `dlc test GLOB --junitxml FILE` |
| a scan | `dlc scan ID --json` |
| two builds compared | `dlc verify-reproducible GLOB --json` |
| a verified image | `dlc verify REGISTRY/REPO:TAG --json` |
| a verified signature | any other program: `{"ref": ..., "digest": ..., "signed_by": ..., "day": ...}` |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dlc.core.errors import UsageError
from dlc.inspection.junit import DAY, read_report
from dlc.inspection.scan import parse_scan
from dlc.site.values import Checks, RebuildResult, ScanResult, SignatureResult

KINDS = "JUnit XML, or JSON of `dlc scan`, `dlc verify-reproducible`, `dlc verify`, or of a signature"
Json = Mapping[str, Any]


@dataclass(frozen=True)
class Image:
    """An image as records name it: by its identifier or by its reference."""

    id: str
    ref: str


def read_records(texts: Mapping[str, str], images: Sequence[Image]) -> dict[str, Checks]:
    """Return what records, by their file names, say of images, by identifier. Of one kind the latest day counts.

    Raises UsageError for a file that is no record; records of other images are left out.
    """
    found = {image.id: Checks() for image in images}
    for name, text in sorted(texts.items()):
        try:
            for identifier, field, value in _read_record(name, text, images):
                before = getattr(found[identifier], field)
                if before is None or value.day >= before.day:
                    found[identifier] = replace(found[identifier], **{field: value})
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(
                f"{name}: expected a record: {KINDS}; found: {_describe_fault(error)}",
                "remove the file, or write it again: dlc help catalogue",
            ) from None
    return found


def _describe_fault(error: Exception) -> str:
    """Return what is wrong with a file that is no record; of a form that Python's words would not explain, no more."""
    if isinstance(error, KeyError):
        return f"no {error}"
    return str(error) if isinstance(error, ValueError) else "values of another form"


Row = tuple[str, str, Any]


def _read_record(name: str, text: str, images: Sequence[Image]) -> Iterator[Row]:
    """Yield an image's identifier, a field of Checks, and its value."""
    if name.endswith(".xml"):
        for identifier, tests in read_report(text, [image.id for image in images]).items():
            yield identifier, "tests", tests
        return
    value = json.loads(text)
    for row in value if isinstance(value, list) else [value]:
        read = next((reader for key, reader in READERS.items() if key in row), None)
        if read is None:
            raise ValueError(f"none of the keys {', '.join(READERS)}")
        for image in images:
            if image.ref == row.get("ref") or image.id == row.get("id"):
                yield (image.id, *read(row))


def _read_scan(row: Json) -> tuple[str, ScanResult]:
    return "scan", ScanResult(_read_day(row), str(row.get("digest", "")), parse_scan(row))


def _read_rebuild(row: Json) -> tuple[str, RebuildResult]:
    digest = str(row.get("against", "")).rpartition("@")[2] or str(row["digests"][0])
    return "rebuild", RebuildResult(_read_day(row), digest, bool(row["identical"]), str(row.get("config", "")))


def _read_signature(row: Json) -> tuple[str, SignatureResult]:
    return "signature", SignatureResult(_read_day(row), str(row["digest"]), str(row["signed_by"]))


def _read_verified(row: Json) -> tuple[str, SignatureResult]:
    """Read what `dlc verify` found; an image that it refused is signed by nobody."""
    reasons = tuple(str(each["name"]) for each in row["refusals"])
    if not row["passes"] and not reasons:
        raise ValueError("an image that is refused without a reason")
    signer = str(row["proven"].get("signature", "") or "whom its policy names")
    config = str(row.get("config", ""))
    return "signature", SignatureResult(_read_day(row), str(row["digest"]), signer, config, reasons)


# A key that only this kind of record has -> its reader.
READERS: Mapping[str, Callable[[Json], tuple[str, Any]]] = {
    "answers": _read_scan,
    "identical": _read_rebuild,
    "signed_by": _read_signature,
    "proven": _read_verified,
}


def _read_day(row: Json) -> str:
    found = DAY.match(str(row.get("day", "")))
    return found[0] if found else ""
