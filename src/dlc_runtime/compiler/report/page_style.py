"""The colours, and the style of elements, that the report's page, the catalogue and the pictures of advice share."""

from __future__ import annotations

COLORS = """
:root {
  color-scheme: light dark;
  --page: #ffffff; --text: #1b1f24; --faint: #59636e; --line: #d5dae0; --band: #f5f7f9; --note-band: #fff1d0;
  --blue: #1a62c9; --orange: #b35900; --gray: #7d8590; --bad: #b3202e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14181d; --text: #e4e8ec; --faint: #9aa4ae; --line: #343b43; --band: #1d2329; --note-band: #3a2f14;
    --blue: #6aa8ff; --orange: #f0a24a; --gray: #9aa4ae; --bad: #ff8a93;
  }
}
"""

ELEMENTS = """
* { box-sizing: border-box; }
body { margin: 0 auto; background: var(--page); color: var(--text);
  font: 15px/1.55 system-ui, "DejaVu Sans", sans-serif; overflow-wrap: break-word; }
h1 { line-height: 1.3; margin: 0 0 8px; overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(145px, 1fr)); gap: 12px; margin: 18px 0; }
.tile, .box { background: var(--band); border: 1px solid var(--line); border-radius: 6px; padding: 10px 14px; }
.tile b { display: block; font-size: 20px; font-weight: 600; line-height: 1.35; overflow-wrap: anywhere; }
.tile span, figcaption { color: var(--faint); font-size: 13px; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; vertical-align: top; padding: 6px 10px; border-bottom: 1px solid var(--line); }
th { background: var(--band); font-weight: 600; }
tbody tr:last-child td { border-bottom: 0; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 0 0 16px; }
svg { width: 100%; height: auto; display: block; }
"""
