"""`dlc site` in a browser: no page has a fault, each fits a telephone, light and dark differ, the search finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dlc.buildspec.matrix import load_variants
from dlc.cli.site import list_entries, read_documents, write_site
from dlc.core.checkout import find_root, read_tree
from dlc.inspection.advisories import Answer, Finding, Verdict
from dlc.inspection.junit import ImageTests
from dlc.inspection.scan import Scan
from dlc.site import values
from dlc.site.pages import list_pages
from harness.browser import Browser, needs_browser, open_browser
from harness.image_facts import LAUNCHER, specimen_facts

ROOT = find_root(Path(__file__).parent)
TORCH, CUDA = "images/pytorch-2.13-training-cpu-py311.html", "images/pytorch-2.15-training-cu132-py313.html"
PAGES = ("index.html", TORCH, CUDA, "verified.html", "docs/index.html", "docs/build.html", "docs/measurements.html",
         "docs/decisions/README.html", "README.html", "search.html?q=launcher+sigterm")  # fmt: skip
PHONE, DESKTOP = 390, 1280
pytestmark = needs_browser


def built_entry(entry: values.Entry) -> values.Entry:
    """The entry as if an engine had its image, with a name as long as none is."""
    finding = Finding("six", "1.17.0", "PYSEC-2026-1", ("CVE-2026-1",), "1.18.0")
    scan = Scan("six", (Answer("the index", (), 3, ()),), Verdict((finding,), (), (), ()))
    failed = ("test_" + "long_" * 40 + f"[{entry.id}]",)
    tests = ImageTests("2026-11-28", ("test_starts",), failed, 1)
    own = values.Checks(scan=values.ScanResult("2026-11-28", "", scan), tests=tests)
    facts = specimen_facts(entry.variant.ref, LAUNCHER)
    return replace(entry, built=values.Built(facts, (entry.variant.ref,), ()), checks=own)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the site of this checkout, with one image built."""
    tree = read_tree(ROOT)
    documents, files = read_documents(ROOT)
    entries = [built_entry(entry) if entry.path == TORCH else entry
               for entry in list_entries(load_variants(tree), tree, {}, {})]  # fmt: skip
    folder = tmp_path_factory.mktemp("catalogue") / "site"
    catalogue = values.Catalogue(tuple(entries), documents, files, "2026-11-28", "0123abcd", "0", engine=True)
    write_site(list_pages(catalogue), folder)
    return folder.as_uri()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


def show(browser: Browser, address: str, width: int, *, dark: bool = False) -> list[str]:
    """Open a page; return its faults, of which a warning is one."""
    browser.show(address, width, dark=dark)
    return browser.errors + browser.warnings


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_no_fault_and_fits_its_width_in_both_colours(
    site: str, browser: Browser, page: str, width: int
) -> None:
    colours = {}
    for dark in (False, True):
        assert show(browser, f"{site}/{page}", width, dark=dark) == []
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        colours[dark] = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colours == {False: "rgb(255, 255, 255)", True: "rgb(20, 24, 29)"}


def test_the_search_finds_sections_and_leads_to_them(site: str, browser: Browser) -> None:
    assert show(browser, f"{site}/search.html?q=coordinator%20rendezvous", DESKTOP) == []
    links = browser.evaluate("[...document.querySelectorAll('#found a')].map(link => link.href)")
    assert f"{site}/docs/architecture.html" in {link.partition("#")[0] for link in links}
    assert browser.evaluate("document.querySelectorAll('#found mark').length") > 0
    assert show(browser, links[0], DESKTOP) == []
    assert browser.evaluate("document.querySelector('h1').textContent")


def test_what_is_searched_for_is_no_markup(site: str, browser: Browser) -> None:
    assert show(browser, f"{site}/search.html?q=%3Cimg%20src%3Dx%3E", DESKTOP) == []
    assert browser.evaluate("document.querySelectorAll('main img').length") == 0
    assert browser.evaluate("document.getElementById('status').textContent").startswith("0 sections")


def test_a_filter_keeps_the_rows_that_hold_its_words(site: str, browser: Browser) -> None:
    browser.show(f"{site}/{CUDA}", DESKTOP)
    shown = """(() => {
      const table = [...document.querySelectorAll('table[data-filter]')].at(-1);
      const field = table.parentElement.previousElementSibling.querySelector('input');
      field.value = 'NCCL';
      field.dispatchEvent(new Event('input'));
      return [...table.tBodies[0].rows].filter(row => !row.hidden).map(row => row.cells[0].textContent);
    })()"""
    assert browser.evaluate(shown) == ["nvidia-nccl-cu13"]


def test_a_fault_of_a_page_is_seen(site: str, browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "x.html"
    page.write_text('<script>throw new Error("broken")</script><img src="lost.png">')
    faults = show(browser, page.as_uri(), DESKTOP)
    assert any("broken" in fault for fault in faults)
    assert any("lost.png" in fault for fault in faults)
