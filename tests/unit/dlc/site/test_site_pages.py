"""site: every page of the whole checkout leads somewhere, holds no script of its own, and shows text as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from html import escape
from pathlib import Path

import pytest

from dlc.buildspec.matrix import load_variants
from dlc.buildspec.models import ScanException
from dlc.cli.site import list_entries, read_documents
from dlc.cli.verify import as_dict
from dlc.core.checkout import find_root, read_tree
from dlc.core.labels import ID
from dlc.inspection.advisories import Answer, Finding
from dlc.inspection.advisories import Verdict as Findings
from dlc.inspection.gpu import GpuCode
from dlc.inspection.junit import ImageTests
from dlc.inspection.scan import Scan
from dlc.proof.judge import Verdict
from dlc.proof.opening import Evidence, Refusal
from dlc.site import checks, values
from dlc.site.elements import tag
from dlc.site.pages import SIGN, list_pages, read_memory
from dlc.site.records import Image, read_records
from dlc.site.values import Built, Catalogue, Checks, Entry
from harness.image_facts import LAUNCHER, specimen_facts
from harness.site_links import list_faults, list_lost
from harness.specimen import changed, specimen

ROOT = find_root(Path(__file__).parent)
DAY, EARLIER = "2026-11-28", "2026-11-20"
ONES = "sha256:" + "1" * 64
HOSTILE = "<script>alert('1')</script>\"&"
TORCH, TENSORFLOW = "pytorch-2.13-training-cpu-py311", "tensorflow-2.21-training-cpu-py311"
FINDING = Finding("six", "1.17.0", "CVE-2026-1", ("PYSEC-1",), "1.18.0")
EXCEPTED = replace(FINDING, advisory="CVE-2026-2", aliases=())
EXCEPTION = ScanException(advisory="CVE-2026-2", reason="unused", owner="ada", expires="2027-01-31")
NO_CHECKS, NO_MEMORY = Checks(), values.Memory()
ANSWERS = (Answer("the index", (), 3, ("mine",)), Answer("Debian", (), 2, ()))


def scanned(*found: Finding, digest: str = "", answers: tuple[Answer, ...] = ANSWERS) -> values.ScanResult:
    """A scan with these findings, of which EXCEPTED has an exception."""
    excepted = tuple((finding, EXCEPTION) for finding in found if finding.advisory == EXCEPTION.advisory)
    verdict = Findings(tuple(finding for finding in found if (finding, EXCEPTION) not in excepted), excepted, (), ())
    return values.ScanResult(DAY, digest, Scan("dlc/pytorch:tag", answers, verdict))


def catalogue(entries: list[Entry], documents: dict[str, str] | None = None, *, engine: bool = True) -> Catalogue:
    return Catalogue(tuple(entries), documents or {}, {}, DAY, "0123456789abcdef", "0.9", engine)


def entries() -> list[Entry]:
    tree = specimen()
    return list_entries(load_variants(tree), tree, {}, {})


def entry(built: Built | None = None, own: Checks = NO_CHECKS, memory: values.Memory = NO_MEMORY) -> Entry:
    found = next(each for each in entries() if each.id == TORCH)
    return replace(found, built=built, checks=own, memory=memory)


def built(gpu: GpuCode | None = None) -> Built:
    return Built(specimen_facts("dlc/pytorch:tag", LAUNCHER), ("dlc/pytorch:tag",), ("r.example/x@sha256:1",), gpu)


def page(one: Entry, path: str = "") -> str:
    return list_pages(catalogue([one]))[path or one.path].decode()


@lru_cache
def whole() -> dict[str, bytes]:
    """The site of this checkout, without an engine."""
    tree = read_tree(ROOT)
    documents, files = read_documents(ROOT)
    own = list_entries(load_variants(tree), tree, {}, {})
    return list_pages(replace(catalogue(own, documents, engine=False), files=files))


def test_every_link_of_this_checkouts_site_leads_to_a_file_and_a_place() -> None:
    assert {"index.html", "verified.html", "search.html", "docs/index.html", "docs/measurements.html"} <= {*whole()}
    assert list(list_lost(whole())) == []


def test_its_pages_hold_no_script_and_no_style_and_are_well_formed() -> None:
    assert list(list_faults(whole())) == []


def test_each_image_and_each_document_has_a_page_and_a_place_in_the_search() -> None:
    index = json.loads(whole()["assets/search-index.js"].decode().removeprefix("const DLC_INDEX = ").rstrip(";\n"))
    found = {row["address"].partition("#")[0] for row in index}
    documents, _ = read_documents(ROOT)
    assert found == {path for path in whole() if path.endswith(".html")} - {
        *("index.html", "verified.html", "search.html", "docs/index.html")
    }
    assert len(found) == len(documents) + len(load_variants(read_tree(ROOT)))


def test_the_measurements_have_charts() -> None:
    assert whole()["docs/measurements.html"].count(b'class="chart"') >= 4


def test_a_link_that_leads_nowhere_is_seen() -> None:
    files = {
        "a/b.html": b'<a href="c.html#x"></a><a href="#y"></a><img src="https://x.example/i.png">',
        "a/c.html": b"",
    }
    assert list(list_lost(files)) == [
        "a/b.html: c.html#x: no such place",
        "a/b.html: #y: no such place",
        "a/b.html: <img> from another host: https://x.example/i.png",
    ]
    assert list(list_faults({"x.html": b'<p onclick="x"><script>1</script></p></i>'}))


def hostile() -> Iterator[Entry]:
    """Entries with markup in every place that comes from an image, a registry, a record or an index."""
    facts = built().facts
    package = replace(facts.packages[0], name=HOSTILE, version=HOSTILE, licences=(HOSTILE,), kind="python")
    step = replace(facts.steps[0], command=HOSTILE)
    bad = replace(facts, packages=(package,), steps=(step,), labels={"org.dlc.content-key": HOSTILE}, created=HOSTILE)
    yield entry(replace(built(), facts=bad, tags=(HOSTILE,), pushed=(HOSTILE,)))
    finding = Finding(HOSTILE, HOSTILE, HOSTILE, (HOSTILE,), HOSTILE)
    exception = ScanException(advisory="CVE-2026-2", reason=HOSTILE, owner=HOSTILE, expires="2027-01-31")
    scan = Scan("x", (Answer(HOSTILE, (), 1, (), HOSTILE),), Findings((), ((finding, exception),), (), ()))
    yield entry(
        built(), Checks(scan=values.ScanResult(DAY, HOSTILE, scan), signature=values.SignatureResult(DAY, "", HOSTILE))
    )
    yield entry(built(), Checks(tests=ImageTests(DAY, ("one",), (HOSTILE,), 0)))
    yield replace(entry(), locked={HOSTILE: HOSTILE}, stale=HOSTILE, key=HOSTILE)


@pytest.mark.parametrize("one", [*hostile()], ids=("facts", "scan", "tests", "lock"))
def test_markup_in_what_others_wrote_is_shown_as_text(one: Entry) -> None:
    files = list_pages(catalogue([one]))
    assert escape(HOSTILE) in files[one.path].decode()
    for path, data in files.items():
        if path.endswith(".html"):
            assert b"<script>" not in data, path
    assert list(list_faults(files)) == []


def test_an_image_that_is_not_built_has_a_page_that_says_so() -> None:
    text = page(entry())
    assert f"dlc build {TORCH}" in text
    assert "treemap" not in text
    assert "No scan is recorded" in text


def test_a_lock_that_may_not_be_used_is_told_and_the_others_have_their_keys() -> None:
    tree = changed(specimen(), "docker/pytorch/locks/" + TORCH + "/training.txt", "numpy==1\n")
    found = {each.id: each for each in list_entries(load_variants(tree), tree, {}, {})}
    assert "training.txt:1: stale" in page(found[TORCH])
    assert (found[TORCH].key, found[TENSORFLOW].stale) == ("", "")
    assert found[TENSORFLOW].key in page(found[TENSORFLOW])


@pytest.mark.parametrize(("version", "compiles"), [("1.13.1", False), ("2.0.0", True), ("2.13.0+cpu", True)])
def test_pytorch_compiles_from_2_on(version: str, compiles: bool) -> None:
    assert ("TorchInductor<" in page(replace(entry(), locked={"torch": version}))) is compiles


def test_a_built_image_shows_digest_tags_sizes_licences() -> None:
    text = page(entry(built()))
    for word in ("sha256:" + "1" * 64, "dlc/pytorch:tag", "r.example/x@sha256:1", "libc6", "LGPL-2.1", "1.1 kB"):
        assert word in text, word
    assert text.count('class="treemap ') == 2
    bill = json.loads(page(entry(built()), f"images/{TORCH}.spdx.json"))
    assert [each["name"] for each in bill["packages"]][1:] == ["libc6", "tini", "six", "dlc-launcher"]
    assert list(list_lost(list_pages(catalogue([entry(built())])))) == []


def test_an_image_of_older_recipes_says_so() -> None:
    facts = built().facts
    fresh = replace(facts, labels={**facts.labels, "org.dlc.content-key": entry().key})
    assert "built from these recipes" in page(entry(replace(built(), facts=fresh)))
    text = page(entry(replace(built(), facts=replace(facts, labels={"org.dlc.content-key": "0" * 64}))))
    assert f"the recipes give {entry().key[:12]}" in text


def test_gpus_are_those_that_the_code_is_for() -> None:
    one = entry(built(GpuCode((80,), (90,), ())))
    settings = one.variant.settings.model_copy(update={"device": "cu130"})
    text = page(replace(one, variant=replace(one.variant, settings=settings)))
    assert "Built for CUDA 13.0." in text
    rows = [row for row in text.split("<tr>") if 'data-title="GPU"' in row]
    answers = {name: next(row for row in rows if f">{name}<" in row) for name in ("V100", "A100", "H200")}
    assert [word in answers[name] for name, word in (("V100", ">no<"), ("A100", ">yes<"), ("H200", ">PTX<"))] == [
        True
    ] * 3


@pytest.mark.parametrize(
    ("scan", "word"),
    [
        (scanned(), ">clean<"),
        (scanned(FINDING, EXCEPTED), ">1 open<"),
        (scanned(EXCEPTED), "1 excepted"),
        (scanned(answers=(replace(ANSWERS[0], unanswered="offline"),)), ">not complete<"),
        (scanned(digest="sha256:" + "2" * 64), "of another digest, 222222222222"),
    ],
    ids=("clean", "open", "excepted", "unanswered", "other"),
)
def test_a_scan_is_clean_only_if_all_answered_and_nothing_is_open(scan: values.ScanResult, word: str) -> None:
    one = entry(built(), Checks(scan=scan))
    for path in (one.path, "verified.html", "index.html"):
        assert word in page(one, path), path
    assert (">clean<" in page(one)) is (word not in (">1 open<", ">not complete<"))


@pytest.mark.parametrize(
    ("digest", "kind"), [(ONES, "good"), ("sha256:2", "plain"), ("sha256:1", "good"), ("", "good")]
)
def test_a_result_of_another_digest_is_not_green(digest: str, kind: str) -> None:
    """The engine has the digest of ones, and knows the image as sha256:1 in a registry."""
    scan = scanned(digest=digest)
    own = Checks(None, scan, values.RebuildResult(DAY, digest, True), values.SignatureResult(DAY, digest, "our key"))
    text = page(entry(built(), own), "verified.html")
    for word in ("clean", "identical", "our key"):
        assert f'class="badge {kind}">{word}<' in text
    assert ("of another digest" in text) is (kind == "plain")


@pytest.mark.parametrize(
    ("config", "kind", "said"),
    [
        ("", "plain", "on one engine"),
        (ONES, "good", "by a second builder"),
        ("sha256:3", "plain", "by a second builder"),
    ],
)
def test_a_rebuild_says_whether_a_second_builder_made_it(config: str, kind: str, said: str) -> None:
    """The engine knows the image by its configuration; of the registry's digest it knows nothing."""
    own = Checks(rebuild=values.RebuildResult(DAY, "sha256:2", True, config))
    text = page(entry(built(), own), "verified.html")
    assert f'class="badge {kind}">identical</span> {said}' in text


def test_an_advisory_has_the_day_of_its_first_scan() -> None:
    scan = scanned(FINDING, EXCEPTED)
    memory = values.Memory((), {checks.finding_key(FINDING): EARLIER})
    one = entry(built(), Checks(scan=scan), memory)
    assert EARLIER in page(one)
    kept = read_memory(page(one, SIGN))
    assert kept is not None
    assert kept[TORCH].findings == {"CVE-2026-1 six": EARLIER, "CVE-2026-2 six": DAY}


def test_digests_are_remembered_and_faults_that_are_gone_are_not() -> None:
    old = values.Sighting("sha256:" + "0" * 64, EARLIER, 5_000_000)
    scan = scanned()
    one = entry(built(), Checks(scan=scan), values.Memory((old,), {"CVE-0 six": EARLIER}))
    assert f"{EARLIER}, 5.0 MB" in page(one)
    kept = read_memory(page(one, SIGN))
    assert kept is not None
    assert kept[TORCH] == values.Memory((old, values.Sighting("sha256:" + "1" * 64, DAY, 1100)), {})
    again = read_memory(page(replace(one, memory=kept[TORCH]), SIGN))
    assert again == kept


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"made_by": "another"}', '{"made_by": "dlc site", "not_shown": {}, "images": {"x": 1}}']
)
def test_a_file_of_others_is_no_memory(text: str) -> None:
    assert read_memory(text) is None


def test_what_is_new_is_told_against_the_nearest_lower_version() -> None:
    own = entry(built())
    header = own.variant.header
    lower = [replace(own, variant=replace(own.variant, header=header.model_copy(update={"version": version})),
                     locked={"numpy": "1.0", "old": "1"}) for version in ("2.9", "2.12")]  # fmt: skip
    text = list_pages(catalogue([own, *lower]))[own.path].decode()
    assert 'Against <a href="pytorch-2.12-training-cpu-py311.html">' in text
    assert f"{len(own.locked) - 1} new, 1 gone, 1 other versions. It takes +0.0 MB." in text
    assert "first version" in list_pages(catalogue([own, *lower]))[lower[0].path].decode()


def test_an_image_of_another_platform_is_no_version_before() -> None:
    own = entry(built())
    settings = own.variant.settings.model_copy(update={"platform": "linux/arm64"})
    header = own.variant.header.model_copy(update={"version": "2.9"})
    other = replace(own, variant=replace(own.variant, header=header, settings=settings))
    assert "first version" in list_pages(catalogue([own, other]))[own.path].decode()


def test_equal_values_give_equal_files() -> None:
    assert list_pages(catalogue([entry(built())])) == list_pages(catalogue([entry(built())]))


@pytest.mark.parametrize(
    ("config", "refusals", "shown"),
    [
        ("own", (), ['class="badge good">key cosign.pub<']),
        ("other", (), ['class="badge plain">key cosign.pub<', "of another digest, 222222222222"]),
        ("own", (Refusal("scan-too-old", "expected younger"),), ['class="badge bad">refused<', "scan-too-old"]),
    ],
)
def test_what_dlc_verify_prints_is_a_record(config: str, refusals: tuple[Refusal, ...], shown: list[str]) -> None:
    """By its registry's digest nobody knows the image here; by its configuration an engine does."""
    here = built()
    known = here.facts.digest if config == "own" else f"sha256:{'3' * 64}"
    evidence = Evidence("r.example/x", f"sha256:{'2' * 64}", "", {ID: TORCH}, known)
    printed = as_dict(evidence, Verdict((("signature", "key cosign.pub"),), refusals))
    found = read_records({"a.json": json.dumps([printed])}, [Image(TORCH, "dlc/pytorch:tag")])[TORCH]
    text = tag("p", checks.show_signature(entry(here, found)))
    for word in shown:
        assert word in text
    assert ("of another digest" in text) == (config == "other")
