"""What dlc shows in a browser, in a real one: the compiler's report, the advice, the pictures of the pages.

On a telephone and on a wide screen, light and dark: nothing is beside the window, no script fails, letters can be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dlc.__main__ import main
from dlc.core.checkout import find_root
from dlc_runtime.compiler.report.html_page import render_page
from dlc_runtime.compiler.report.merge import merge_records
from harness.browser import Browser, needs_browser, open_browser
from harness.rank_report import rank_report

pytestmark = needs_browser
TELEPHONE, SCREEN = 390, 1280
# As WCAG 2 asks of text.
LEAST_CONTRAST = 4.5
LONG = "module.of.a.deep.package." * 12
ADVICE = ("advise", "--on", "p4d.24xlarge", "--step-ms", "86", "--cpu-seconds", "2.304", "--svg")
# Of every element with text of its own: its colour, and that of the nearest ground below it.
COLORS = """
[...document.querySelectorAll("body *")].filter(function (each) {
  return [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim()) &&
    each.getClientRects().length && !each.closest("script, style, title");
}).map(function (each) {
  var style = getComputedStyle(each), color = each.closest("svg") ? style.fill : style.color, ground = each;
  while (ground && getComputedStyle(ground).backgroundColor === "rgba(0, 0, 0, 0)") ground = ground.parentElement;
  return [each.textContent.trim(), color, ground ? getComputedStyle(ground).backgroundColor : "rgb(255, 255, 255)"];
})
"""
# Elements with an edge beside the window, and tables that a part of is cut off.
BESIDE = """
[...document.querySelectorAll("body *, svg text")].filter(function (each) {
  var box = each.getBoundingClientRect();
  return box.right > innerWidth + 1 || box.left < -1 || each.matches(".wide") && each.scrollWidth > each.clientWidth;
}).map(each => each.textContent)
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of two ranks, with a row in every table, and words that are longer than a telephone is wide."""
    merged = merge_records([rank_report(), rank_report(1)])
    place = {"function": LONG, "file": f"/opt/ml/code/{LONG}.py", "line": 7, "step": 20, "ranks": [0, 1]}
    merged["warnings"].append(LONG)
    merged["notes"].append(f"SGD: fused steps are used: 1.31 to 1.42 times as fast as its own, {LONG}")
    merged["gave_up"].append({**place, "cause": LONG, "remedy": "another way"})
    merged["eager"].append({"module": LONG, "reason": "it has a hook", "remedy": "remove it", "ranks": [0]})
    merged["fallbacks"].append({**place, "type": "BackendCompilerFailed", "reason": LONG})
    merged["ways"] += [
        {"function": "Net", "way": way, "outcome": outcome, "steps": 40, "seconds": 0.1, "verdict": "1.9 to 2.1 x",
         "against": "eager", "low": 1.9, "high": 2.1, "pairs": 6, "paired_seconds": [0.2, 0.1], "compile_seconds": 7.5,
         "memory_bytes": 2**31, "compared": f"graph 0/0: outputs within 1e-7\ngraph 0/1, {LONG}: gradients"}
        for way, outcome in (("compiled", "chosen"), ("reduce-overhead", "left: not faster than compiled"))
    ]  # fmt: skip
    # As of a way that used no memory of a device: cells without a value.
    merged["ways"].append({**merged["ways"][-1], "way": "regional", "memory_bytes": 0, "verdict": "", "compared": ""})
    merged["headline"] = {"verdict": f"Not worth it here: {LONG}", "advice": f"next time DLC_COMPILER=off, or {LONG}"}
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(render_page(merged))
    return file


@pytest.fixture(scope="module")
def advice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("advice") / "advice.svg"
    assert main([*ADVICE, str(file)]) == 0
    return file


def contrast(color: str, ground: str) -> float:
    """The contrast of two colours, `rgb(R, G, B)`, by WCAG 2: 1 to 21."""
    lights = sorted(luminance(each) for each in (color, ground))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def luminance(color: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [TELEPHONE, SCREEN])
def test_the_report_fits_the_window_and_can_be_read(width: int, dark: bool, report: Path, browser: Browser) -> None:
    browser.show(report, width, dark=dark)
    assert browser.evaluate("[innerWidth, document.documentElement.scrollWidth]") == [width, width]
    assert browser.evaluate(BESIDE) == []
    found: list[tuple[str, str, str]] = browser.evaluate(COLORS)
    assert len(found) > 100
    assert [each for each in found if contrast(*each[1:]) < LEAST_CONTRAST] == []
    assert browser.errors == []


def test_numbers_stand_below_their_heads_and_on_a_telephone_beside_them(report: Path, browser: Browser) -> None:
    edges = """
    [...document.querySelectorAll("section:last-of-type %s")].map(function (each) {
      var range = document.createRange();
      range.selectNodeContents(each);
      return Math.round(range.getBoundingClientRect().right);
    })
    """
    browser.show(report, SCREEN)
    heads, cells = (browser.evaluate(edges % kind) for kind in ("th.number", "tbody tr:first-child .number"))
    assert len(heads) == 4, "rank, steps, and seconds of steps that took no turns"
    assert heads == cells
    browser.show(report, TELEPHONE)
    sides = browser.evaluate('[...document.querySelectorAll("td")].map(each => getComputedStyle(each).textAlign)')
    assert {*sides} == {"left"}
    shown = browser.evaluate('getComputedStyle(document.querySelector("td"), "::before").content')
    assert shown.replace('" "', "") == '"function: "'


def test_on_a_telephone_no_field_without_a_value_is_shown(report: Path, browser: Browser) -> None:
    shown = """
    [...document.querySelectorAll("td, .tile b")].filter(each => each.getClientRects().length)
      .map(each => each.textContent)
    """
    browser.show(report, TELEPHONE)
    texts = browser.evaluate(shown)
    assert len(texts) > 50
    assert [text for text in texts if text in ("", "-", "0 / 0")] == []
    first = browser.evaluate('document.querySelector("body").innerText').split("\n")[0]
    assert first.startswith("Not worth it here: ")


def test_a_click_sorts_a_table_by_number(report: Path, browser: Browser) -> None:
    browser.show(report, SCREEN)
    names: list[Any] = browser.evaluate("""
        (function () {
          var heads = [...document.querySelectorAll("h2")];
          var table = heads.find(head => head.textContent.startsWith("Modules")).parentElement;
          table.querySelectorAll("th button")[2].click();
          return [...table.querySelectorAll("tbody tr")].map(row => row.cells[0].textContent)
            .concat(table.querySelectorAll("th")[2].getAttribute("aria-sort"));
        })()
    """)
    assert names == ["M9", "M20", "M100", "ascending"]


@pytest.mark.parametrize("width", [TELEPHONE, SCREEN])
def test_the_advice_fits_the_window_and_follows_light_and_dark(width: int, advice: Path, browser: Browser) -> None:
    """A telephone shows a picture 980 pixels wide, and makes it as small as its window."""
    grounds = []
    for dark in (False, True):
        browser.show(advice, width, dark=dark)
        inner, scrolled = browser.evaluate("[innerWidth, document.documentElement.scrollWidth]")
        assert scrolled == inner
        assert browser.evaluate(BESIDE.replace("body *, ", "")) == []
        letter = browser.evaluate('document.querySelector("text").getBoundingClientRect().height') * width / inner
        assert letter >= 10
        color, ground = browser.evaluate(
            '["text", "rect"].map(each => getComputedStyle(document.querySelector(each)).fill)'
        )
        assert contrast(color, ground) >= LEAST_CONTRAST
        grounds.append(ground)
        assert browser.errors == []
    assert luminance(grounds[0]) > 0.9 > 0.1 > luminance(grounds[1])


@pytest.mark.parametrize("name", ["build", "groups", "job"])
def test_a_picture_of_the_pages_fits_a_telephone(name: str, tmp_path: Path, browser: Browser) -> None:
    """As a page on the web shows it: in an <img>."""
    picture = find_root() / f"docs/pictures/{name}.svg"
    file = tmp_path / "page.html"
    file.write_text(
        '<!doctype html><meta name="viewport" content="width=device-width">'
        f'<body><img src="{picture.as_uri()}" style="max-width: 100%; height: auto" alt=""></body>'
    )
    browser.show(file, TELEPHONE)
    width, height = browser.evaluate("[document.images[0].naturalWidth, document.images[0].clientHeight]")
    assert (width, height > 0) == (640, True)
    assert browser.evaluate("document.documentElement.scrollWidth") == TELEPHONE
    assert browser.errors == []
