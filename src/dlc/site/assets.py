"""The style and the script that all pages share, as text."""

from __future__ import annotations

STYLE = """
:root {
  --link: #1a5fb4; --good: #1a7f37; --good-band: #dcefe0; --bad-band: #fbe0e2; --note: #7a5200; --green: #2e7d4f;
  --debian: #cfe0f7; --python: #d6edd3; --dlc: #f7d9b5; --layer: #ddd8f3; --others: #e3e6ea;
}
@media (prefers-color-scheme: dark) {
  :root {
    --link: #79b0ff; --good: #6fd38a; --good-band: #1b3524; --bad-band: #43222a; --note: #f0c36a; --green: #6fcf97;
    --debian: #213a5c; --python: #234a2b; --dlc: #5a3c18; --layer: #3a3463; --others: #2c333b;
  }
}
html { scroll-padding-top: 12px; }
body { padding: 0 24px 24px; max-width: 1160px; }
a { color: var(--link); text-underline-offset: 2px; }
a:focus-visible, input:focus-visible, summary:focus-visible, .wide:focus-visible, pre:focus-visible {
  outline: 2px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -999px; }
.skip:focus { left: 12px; top: 8px; background: var(--page); padding: 4px 8px; z-index: 1; }
header { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 20px; padding: 14px 0;
  border-bottom: 1px solid var(--line); margin-bottom: 24px; }
.home { font-weight: 700; color: var(--text); text-decoration: none; }
nav { display: flex; flex-wrap: wrap; gap: 4px 16px; flex: 1; }
nav a { text-decoration: none; padding: 2px 0; }
nav a[aria-current] { color: var(--text); border-bottom: 2px solid var(--link); }
input { font: inherit; color: inherit; background: var(--band); border: 1px solid var(--line); border-radius: 6px;
  padding: 5px 10px; width: 220px; max-width: 100%; }
footer { margin-top: 48px; padding-top: 12px; border-top: 1px solid var(--line); color: var(--faint); font-size: 13px; }
h1 { font-size: 25px; }
h2 { font-size: 19px; line-height: 1.3; margin: 36px 0 8px; }
h3 { font-size: 16px; margin: 24px 0 6px; }
p { margin: 0 0 12px; max-width: 80ch; }
li { max-width: 80ch; }
.faint { color: var(--faint); }
code, pre { font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; }
code { background: var(--band); border-radius: 4px; padding: 1px 4px; overflow-wrap: anywhere; }
pre { background: var(--band); border: 1px solid var(--line); border-radius: 6px; padding: 10px 14px;
  overflow-x: auto; margin: 0 0 14px; }
pre code { background: none; padding: 0; overflow-wrap: normal; }
.badge { display: inline-block; border-radius: 10px; padding: 0 8px; font-size: 13px; white-space: nowrap;
  background: var(--band); border: 1px solid var(--line); color: var(--faint); }
.badge.good { background: var(--good-band); color: var(--good); border-color: transparent; }
.badge.bad { background: var(--bad-band); color: var(--bad); border-color: transparent; }
.badge.note { background: var(--note-band); color: var(--note); border-color: transparent; }
.day { white-space: nowrap; }
.wide { margin: 0 0 16px; }
th, td { min-width: 64px; }
td code { white-space: normal; }
.facts td:first-child { color: var(--faint); width: 190px; }
.facts td { overflow-wrap: anywhere; }
figcaption { margin-bottom: 6px; }
figcaption > span { margin-right: 14px; display: inline-block; }
svg text { fill: var(--text); font-size: 13px; font-family: system-ui, "DejaVu Sans", sans-serif; }
.treemap { border-radius: 6px; }
.narrow-only { display: none; }
.treemap .bytes { fill: var(--faint); }
.area { stroke: var(--page); stroke-width: 1; }
.area.debian { fill: var(--debian); } .area.python { fill: var(--python); } .area.dlc { fill: var(--dlc); }
.area.layer { fill: var(--layer); } .area.others { fill: var(--others); }
g:hover > .area { filter: brightness(1.12); }
.chart { max-width: 560px; }
.chart text { font-size: 12px; }
.figure { fill: var(--faint) !important; font-size: 11px !important; }
.bar-0 { fill: var(--blue); background: var(--blue); } .bar-1 { fill: var(--orange); background: var(--orange); }
.bar-2 { fill: var(--green); background: var(--green); } .bar-3 { fill: var(--gray); background: var(--gray); }
.key { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px;
  vertical-align: -1px; }
.key.debian { background: var(--debian); } .key.python { background: var(--python); }
.key.dlc { background: var(--dlc); } .key.others { background: var(--others); } .key.layer { background: var(--layer); }
details { margin: 0 0 14px; }
summary { cursor: pointer; color: var(--link); }
.contents { background: var(--band); border: 1px solid var(--line); border-radius: 6px; padding: 8px 14px;
  margin: 0 0 20px; }
.contents ul { margin: 6px 0 2px; padding-left: 20px; columns: 260px; }
.document img { max-width: 100%; height: auto; }
.columns { columns: 340px; }
.found { list-style: none; padding: 0; }
.found li { margin: 0 0 18px; }
.found p { margin: 2px 0 0; color: var(--faint); font-size: 14px; }
mark { background: var(--note-band); color: inherit; border-radius: 2px; }
.search-page { width: 100%; max-width: 560px; font-size: 17px; }
@media (min-width: 721px) {
  .cards td:first-child a { white-space: nowrap; }
}
@media (max-width: 720px) {
  body { padding: 0 14px 20px; }
  header { gap: 6px 14px; margin-bottom: 16px; }
  header form { flex: 1 1 100%; }
  header input { width: 100%; }
  nav { flex: 1 1 100%; }
  h1 { font-size: 21px; }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 8px; }
  .tile b { font-size: 16px; }
  .cards, .cards tbody, .cards tr, .cards td { display: block; }
  .cards thead { display: none; }
  .cards tr { border-bottom: 1px solid var(--line); padding: 8px 0; }
  .cards tr:last-child { border-bottom: 0; }
  .cards td, .cards tbody tr:last-child td { border: 0; padding: 2px 12px 2px 116px; text-align: left;
    white-space: normal; position: relative; overflow-wrap: anywhere; min-height: 26px; }
  .cards td::before { content: attr(data-title); color: var(--faint); position: absolute; left: 12px; width: 98px; }
  .cards tbody tr td:first-child { font-weight: 600; padding-left: 12px; }
  .cards td:first-child::before { content: none; }
  .document table:has(th:nth-child(4)) { min-width: 640px; }
  .wide-only { display: none; }
  .narrow-only { display: block; }
  .dense tr { display: grid; grid-template-columns: 1fr 1fr; }
  .dense td:first-child, .dense td:last-child { grid-column: 1 / -1; }
  .cards.dense tbody tr td:not(:first-child) { padding-left: 78px; padding-right: 4px; }
  .cards.dense td::before { width: 64px; }
  .facts, .facts tbody, .facts tr, .facts td { display: block; width: 100%; }
  .facts thead { display: none; }
  .facts td:first-child { width: 100%; border: 0; padding-bottom: 0; }
}
"""

SCRIPT = """
"use strict";
(function () {
  // Tables with data-filter: a field above them keeps the rows that hold its words.
  document.querySelectorAll("table[data-filter]").forEach(function (table) {
    var field = document.createElement("input");
    field.type = "search";
    field.placeholder = table.getAttribute("data-filter");
    field.setAttribute("aria-label", field.placeholder);
    var line = document.createElement("p");
    line.appendChild(field);
    table.parentElement.before(line);
    field.addEventListener("input", function () {
      var words = field.value.toLowerCase().split(/\\s+/).filter(Boolean);
      Array.from(table.tBodies[0].rows).forEach(function (row) {
        var text = row.textContent.toLowerCase();
        row.hidden = !words.every(function (word) { return text.includes(word); });
      });
    });
  });

  var list = document.getElementById("found");
  if (!list || typeof DLC_INDEX === "undefined") { return; }
  var field = document.getElementById("query"), status = document.getElementById("status");
  var MOST = 40, AROUND = 70;

  function score(entry, words) {
    var title = entry.title.toLowerCase(), page = entry.page.toLowerCase(), text = entry.text.toLowerCase(), sum = 0;
    for (var i = 0; i < words.length; i++) {
      var word = words[i], own = 0;
      if (title.includes(word)) { own += 20; }
      if (page.includes(word)) { own += 8; }
      own += Math.min(text.split(word).length - 1, 5);
      if (!own) { return 0; }
      sum += own;
    }
    return sum + (entry.level === 1 ? 3 : 0);
  }

  function markWords(target, text, words) {
    var lower = text.toLowerCase(), place = 0;
    while (place < text.length) {
      var next = -1, length = 0;
      words.forEach(function (word) {
        var at = lower.indexOf(word, place);
        if (at >= 0 && (next < 0 || at < next)) { next = at; length = word.length; }
      });
      if (next < 0) { break; }
      target.append(text.slice(place, next));
      var mark = document.createElement("mark");
      mark.textContent = text.slice(next, next + length);
      target.append(mark);
      place = next + length;
    }
    target.append(text.slice(place));
  }

  function show(entry, words) {
    var item = document.createElement("li"), link = document.createElement("a"), line = document.createElement("p");
    link.href = entry.address;
    link.textContent = entry.title === entry.page ? entry.page : entry.page + ": " + entry.title;
    var lower = entry.text.toLowerCase();
    var at = Math.max(0, Math.min.apply(null, words.map(function (word) {
      var place = lower.indexOf(word);
      return place < 0 ? Infinity : place;
    })));
    var from = at === Infinity ? 0 : Math.max(0, at - AROUND);
    markWords(line, (from ? "\\u2026" : "") + entry.text.slice(from, from + 3 * AROUND), words);
    item.append(link, line);
    list.append(item);
  }

  function search() {
    var words = field.value.toLowerCase().split(/\\s+/).filter(Boolean);
    list.replaceChildren();
    status.textContent = words.length ? "" : "Type words: pages and sections that hold all of them are shown.";
    if (!words.length) { return; }
    var found = DLC_INDEX.map(function (entry) { return [score(entry, words), entry]; })
      .filter(function (pair) { return pair[0] > 0; }).sort(function (a, b) { return b[0] - a[0]; });
    var more = found.length > MOST ? ", the best " + MOST + " are shown" : "";
    status.textContent = found.length + (found.length === 1 ? " section" : " sections") + " found" + more + ".";
    found.slice(0, MOST).forEach(function (pair) { show(pair[1], words); });
  }

  field.value = new URLSearchParams(location.search).get("q") || "";
  field.addEventListener("input", search);
  search();
  field.focus();
})();
"""
