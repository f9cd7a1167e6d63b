"""site: elements escape, treemaps fill their area, charts and documents are what their text says, records."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from dlc.buildspec.models import ScanException
from dlc.core.errors import SpecError, UsageError
from dlc.core.text import format_bytes
from dlc.inspection.advisories import Answer, Finding, Verdict
from dlc.inspection.facts import Step
from dlc.inspection.junit import ImageTests
from dlc.inspection.scan import Scan, as_dict, parse_scan
from dlc.site.charts import Chart, make_chart, render_chart
from dlc.site.documents import Document, render_document
from dlc.site.elements import Html, join, make_table, tag
from dlc.site.image_page import group_layers, name_layer
from dlc.site.records import Image, read_records
from dlc.site.treemap import WIDE, Area, Box, Group, lay_out, merge_small, render_treemap
from dlc.site.values import Checks, ScanResult
from harness.image_facts import LAUNCHER, specimen_facts
from harness.site_links import read_page

XLA, PLAIN = Image("pytorch-2.9-cu128-xla", "dlc/pytorch:2.9-xla"), Image("pytorch-2.9-cu128", "dlc/pytorch:2.9")

SOURCES = Path(__file__).parents[4] / "src"
RECTANGLE = re.compile(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"')


def test_a_colour_of_pages_and_pictures_is_written_in_one_file() -> None:
    places: dict[str, set[str]] = {}
    for file in SOURCES.rglob("*.py"):
        for color in re.findall(r"#[0-9a-f]{6}\b", file.read_text()):
            places.setdefault(color, set()).add(file.name)
    assert "page_style.py" in places["#1b1f24"]
    assert {color: sorted(files) for color, files in places.items() if len(files) > 1} == {}


def test_text_is_escaped_and_html_is_not() -> None:
    assert tag("p", "a < b", Html("<b>c</b>"), None, 3, class_='x"y') == '<p class="x&quot;y">a &lt; b<b>c</b>3</p>'
    assert join(["<", ["&", Html("&amp;")]], ", ") == "&lt;, &amp;&amp;"
    assert tag("input", autofocus=True, data_x=None, hidden=False) == "<input autofocus>"


@pytest.mark.parametrize("address", ["javascript:alert(1)", "data:text/html,x", "vbscript:x", " javascript:x"])
def test_a_link_to_a_script_is_no_link(address: str) -> None:
    with pytest.raises(ValueError, match="expected an address of a page"):
        tag("a", "x", href=address)


def test_cells_know_their_column_and_rows_of_another_length_are_refused() -> None:
    text = make_table(("name", "size"), [("a", "1.5 GB"), ("b", 3)])
    assert text.count('data-title="size" class="number"') == 2
    with pytest.raises(ValueError, match="argument"):
        make_table(("name",), [("a", "b")])


@pytest.mark.parametrize("sizes", [[1], [5, 5], [100, 50, 20, 3, 1], [10**9, *[10**6] * 50], list(range(300, 0, -1))])
def test_boxes_fill_the_whole_in_proportion_and_do_not_overlap(sizes: list[int]) -> None:
    boxes = lay_out(sizes, Box(0, 0, *WIDE))
    scale = WIDE[0] * WIDE[1] / sum(sizes)
    assert [box.width * box.height for box in boxes] == pytest.approx([size * scale for size in sizes])
    for box in boxes:
        assert -0.01 <= box.x <= box.x + box.width <= WIDE[0] + 0.01
        assert -0.01 <= box.y <= box.y + box.height <= WIDE[1] + 0.01
    for index, one in enumerate(boxes):
        for other in boxes[:index]:
            across = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
            down = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
            assert across < 0.01 or down < 0.01


def test_a_treemap_of_nothing_is_empty_and_small_ones_are_one() -> None:
    assert "<rect" not in render_treemap([Group("a", 0)], "x")
    merged = merge_small([Area("large", 10**9, "python"), *(Area(f"p{n}", 10, "debian") for n in range(40))], 1000)
    assert [(area.name, area.bytes) for area in merged] == [("large", 10**9), ("40 others", 400)]
    assert merged[1].kind == "debian"
    assert merge_small([Area("a", 1, "debian"), Area("b", 1, "python")], 1000)[0].kind == "others"


def test_a_treemap_names_what_it_shows_within_its_groups() -> None:
    areas = (Area("torch<", 3 * 10**9, "python", "2.13"), Area("numpy", 10**9, "python"))
    text = render_treemap([Group("the framework", 4 * 10**9, areas, "RUN"), Group("dlc", 10**9)], "packages")
    assert "<title>torch&lt;: 3.00 GB\n2.13</title>" in text
    assert text.count('aria-label="packages"') == 2
    assert read_page(text).misplaced == []
    for drawing in text.split("<svg")[1:]:
        assert drawing.count("<rect") == 4
        found = [[float(value) for value in each] for each in RECTANGLE.findall(drawing)]
        outer = found[0]
        for inner in found[1:3]:
            assert outer[0] <= inner[0]
            assert outer[1] <= inner[1]
            assert inner[0] + inner[2] <= outer[0] + outer[2]
            assert inner[1] + inner[3] <= outer[1] + outer[3]


def test_packages_are_in_the_layer_that_their_lock_names() -> None:
    facts = specimen_facts("x", LAUNCHER)
    steps = tuple(Step(command, 1000) for command in ("/lock/framework.txt", "/lock/training.txt", "COPY / /"))
    layered = replace(facts, steps=steps)
    held = {
        group.name: [area.name for area in group.areas] for group in group_layers(layered, {"six": "framework.txt"})
    }
    rest = "files of no package"
    assert held == {"the framework": ["six", rest], "training packages": [], "the system": ["libc6", "tini", rest]}
    held = {group.name: [area.name for area in group.areas] for group in group_layers(layered, {"six": "cuda.txt"})}
    assert held["the framework"] == ["six", rest]
    held = {group.name: [area.name for area in group.areas] for group in group_layers(layered, {})}
    assert held["training packages"] == ["six", rest]


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2_000_000, "2.0 MB"), (10**9, "1.00 GB")]
)
def test_bytes_in_words(size: int, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("RUN /bin/sh -c /scripts/python-packages/install.sh /lock/cuda.txt", "CUDA's libraries"),
        ("RUN /bin/sh -c /scripts/python-packages/install.sh /lock/framework.txt", "the framework"),
        ("COPY / / # buildkit", "the system"),
        ("COPY /image/ / # buildkit", "dlc"),
        ("RUN something", "RUN something"),
    ],
)
def test_layers_have_names(command: str, name: str) -> None:
    assert name_layer(Step(command, 1)) == name


HEADS, ROWS = ["image", "files", "blocks", "goal"], [["a", "1.74", "1.89", "at most 1.9"], ["b", "", "none", "-"]]


def test_a_chart_has_the_columns_that_its_comment_names() -> None:
    chart = make_chart("<!-- chart: files, blocks in GB -->", HEADS, [*ROWS, ["c", "1,200 (9)", "", ""]])
    assert chart == Chart(("files", "blocks"), "GB", (("a", (1.74, 1.89)), ("c", (1200.0, None))))
    drawn = render_chart(chart)
    assert drawn.count('class="bar ') == 3
    widths = [float(width) for width in re.findall(r'width="([\d.]+)" height="11"', drawn)]
    assert widths[2] == max(widths)
    assert "in GB" in drawn


@pytest.mark.parametrize(
    ("marker", "words"),
    [
        ("<!-- chart: lost -->", "found lost"),
        ("<!-- chart: image -->", "found image"),
        ("<!-- chart -->", "expected `<!-- chart: COLUMN"),
        ("<!-- chart: goal, files, blocks, goal, files -->", "at most 4"),
    ],
)
def test_a_chart_that_cannot_be_drawn_is_an_error_with_its_page(marker: str, words: str) -> None:
    table = "\n".join([f"| {' | '.join(HEADS)} |", "|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in ROWS)])
    with pytest.raises(SpecError, match=re.escape("docs/x.md: ")) as caught:
        render("docs/x.md", f"{marker}\n{table}\n")
    assert words in str(caught.value)


def test_a_chart_without_a_table_or_numbers_is_an_error() -> None:
    with pytest.raises(SpecError, match="expected a table right below it"):
        render("docs/x.md", "<!-- chart: a -->\n\ntext\n")
    with pytest.raises(SpecError, match="expected numbers in goal"):
        render("docs/x.md", "<!-- chart: goal -->\n| a | goal |\n|---|---|\n| b | none |\n")


def render(path: str, text: str) -> Document:
    documents = ("README.md", "docs/x.md", "docs/lint/README.md", "docs/lint/D1.md")
    return render_document(path, text, documents, ("docs/p.svg", "examples/job.yml"))


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("[t](lint/D1.md#why)", '<a href="lint/D1.html#why">t</a>'),
        ("[t](../README.md)", '<a href="../README.html">t</a>'),
        ("[t](lint/)", '<a href="lint/README.html">t</a>'),
        ("[t](lint)", '<a href="lint/README.html">t</a>'),
        ("![t](p.svg)", '<img src="p.svg" alt="t" />'),
        ("[t](../examples/job.yml)", '<a href="../examples/job.yml">t</a>'),
        ("[t](https://x.example/y)", '<a href="https://x.example/y">t</a>'),
        ("[t](#here)", '<a href="#here">t</a>'),
        ("[t](../src/lost.py) [u](p.svg)", 't <a href="p.svg">u</a>'),
        ("[t](ftp://x.example)", "t"),
    ],
)
def test_links_lead_to_pages_of_the_site_or_are_text(written: str, shown: str) -> None:
    assert render("docs/x.md", written).body == f"<p>{shown}</p>\n"


def test_raw_html_is_text_and_comments_are_nothing() -> None:
    body = render("docs/x.md", "<!-- hidden -->\n\na <b>c</b>\n\n<script>x</script>\n").body
    assert "hidden" not in body
    assert "a &lt;b&gt;c&lt;/b&gt;" in body
    assert "&lt;script&gt;x&lt;/script&gt;" in body


def test_headings_have_anchors_and_sections_their_text() -> None:
    found = render(
        "docs/x.md",
        "# The `x`\n\nfirst\n\n## A part\n\n| a | b |\n|---|---|\n| c | d |\n\n## A part\n\n```\ncode\n```\n",
    )
    assert [(each.anchor, each.title, each.level, each.text.split()) for each in found.sections] == [
        ("the-x", "The x", 1, ["first"]),
        ("a-part", "A part", 2, ["a", "b", "c", "d"]),
        ("a-part-1", "A part", 2, ["code"]),
    ]
    assert found.title == "The x"
    assert found.path == "docs/x.html"
    assert '<h2 id="a-part-1">' in found.body


def test_files_that_a_page_leads_to_are_known() -> None:
    assert render("docs/x.md", "![a](p.svg) [b](lint/D1.md) [c](lost)").linked == {"docs/p.svg"}


SUITES = """<testsuites><testsuite timestamp="2026-11-27T10:00:00">
<testcase name="test_a[pytorch-2.9-cu128-xla]"/><testcase name="test_b[pytorch-2.9-cu128-xla]"><failure/></testcase>
<testcase name="test_a[pytorch-2.9-cu128]"/><testcase name="test_c[x-pytorch-2.9-cu128]"><skipped/></testcase>
<testcase name="test_d[pytorch-1.0]"/></testsuite></testsuites>"""
SCAN = {
    "ref": PLAIN.ref, "digest": "sha256:1", "day": "2026-11-26",
    "answers": [{"source": "index", "findings": [], "asked": 2, "unknown": [], "unanswered": "", "day": ""}],
    "open": [{"package": "six", "version": "1", "advisory": "CVE-1", "aliases": ["PYSEC-1"], "fix": "2"}],
    "excepted": [{"package": "six", "version": "1", "advisory": "CVE-2", "aliases": [], "fix": "",
                  "exception": {"advisory": "CVE-2", "package": "", "reason": "unused", "owner": "ada",
                                "expires": "2027-01-01"}}],
    "expired": [], "unused_exceptions": [],
}  # fmt: skip


def read(**texts: str) -> dict[str, Checks]:
    return read_records({name.replace("_", "."): text for name, text in texts.items()}, [PLAIN, XLA])


def test_tests_count_for_the_image_in_their_name() -> None:
    found = read(tests_xml=SUITES)
    plain, xla = found[PLAIN.id].tests, found[XLA.id].tests
    assert plain == ImageTests("2026-11-27", ("test_a[pytorch-2.9-cu128]",), (), 1)
    assert xla is not None
    assert (len(xla.passed), xla.skipped, xla.failed) == (1, 0, ("test_b[pytorch-2.9-cu128-xla]",))


def test_a_scan_a_rebuild_and_a_signature_are_read() -> None:
    rebuilt = [
        {"id": XLA.id, "digests": ["sha256:2", "sha256:2"], "identical": True, "differences": [], "day": "2026-11-25"}
    ]
    signed = {"ref": PLAIN.ref, "digest": "sha256:1", "signed_by": "release key", "day": "2026-11-28"}
    found = read(a_json=json.dumps(SCAN), b_json=json.dumps(rebuilt), c_json=json.dumps(signed))
    scan, rebuild, signature = found[PLAIN.id].scan, found[XLA.id].rebuild, found[PLAIN.id].signature
    assert scan is not None
    assert [(state, finding.advisory) for state, finding, _ in scan.scan.verdict.list_states()] == [
        ("open", "CVE-1"),
        ("excepted", "CVE-2"),
    ]
    assert (scan.day, scan.digest) == ("2026-11-26", "sha256:1")
    assert rebuild is not None
    assert (rebuild.day, rebuild.digest, rebuild.identical) == ("2026-11-25", "sha256:2", True)
    assert signature is not None
    assert signature.signed_by == "release key"


def test_a_rebuild_by_a_second_builder_is_of_what_the_first_has_pushed() -> None:
    row = {"id": XLA.id, "digests": ["sha256:2"], "identical": True, "differences": [], "day": "2026-11-25",
           "against": "r.example/team/pytorch@sha256:3", "config": "sha256:4"}  # fmt: skip
    rebuild = read(a_json=json.dumps([row]))[XLA.id].rebuild
    assert rebuild is not None
    assert (rebuild.digest, rebuild.config, rebuild.identical) == ("sha256:3", "sha256:4", True)


def test_the_latest_record_counts_whatever_its_name() -> None:
    later = {**SCAN, "day": "2026-11-27", "open": []}
    for first, second in ((SCAN, later), (later, SCAN)):
        scan = read(a_json=json.dumps(first), b_json=json.dumps(second))[PLAIN.id].scan
        assert scan is not None
        assert scan.day == "2026-11-27"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x_json", "{"),
        ("x_json", "{}"),
        ("x_json", "[3]"),
        ("x_json", json.dumps({**SCAN, "open": [{}]})),
        ("x_json", json.dumps({"ref": PLAIN.ref, "signed_by": "x"})),
        ("x_json", json.dumps({"id": PLAIN.id, "identical": True, "digests": []})),
        ("x_xml", "<testsuites>"),
        ("x_xml", "<html></html>"),
        ("x_xml", '<!DOCTYPE x [<!ENTITY a "aa">]><testsuites>&a;</testsuites>'),
    ],
)
def test_a_file_that_is_no_record_is_one_error_with_its_name(name: str, text: str) -> None:
    with pytest.raises(UsageError, match="expected a record") as caught:
        read(**{name: text})
    assert str(caught.value).startswith(name.replace("_", "."))


def test_a_scan_of_now_is_as_its_record() -> None:
    finding = Finding("six", "1", "CVE-1", ("PYSEC-1",), "2")
    exception = ScanException(advisory="CVE-2", reason="unused", owner="ada", expires="2027-01-01")
    excepted = replace(finding, advisory="CVE-2", aliases=(), fix="")
    verdict = Verdict((finding,), ((excepted, exception),), (), ())
    scan = Scan(PLAIN.ref, (Answer("index", (), 2, ()),), verdict)
    assert ScanResult("2026-11-26", "sha256:1", scan) == read(a_json=json.dumps(SCAN))[PLAIN.id].scan
    printed = json.loads(json.dumps(as_dict(scan)))
    assert {**printed, "digest": "sha256:1", "day": "2026-11-26"} == SCAN
    assert parse_scan(printed) == scan
