"""The pictures of the pages: `python scripts/pictures.py` writes them to docs/pictures.

Each is one SVG file that needs nothing else, follows light or dark colours, and can be read on a telephone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs/pictures"
# Units. A page of 390 pixels shows letters of 14 with 11 pixels; on a wide one the picture has SHOWN pixels.
WIDTH, LETTER, LINE = 480, 14, 19
SHOWN = 640
EDGE = 12
# Of a box: around its text.
PADDING = 8
STYLE = f"""
:root {{ --page: #ffffff; --text: #1b1f24; --faint: #59636e; --line: #aab2bb; --band: #f0f3f6;
  --good: #dcefe0; --bad: #fbe0e2; --work: #dfeaf8; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --page: #14181d; --text: #e4e8ec; --faint: #9aa4ae; --line: #56606b; --band: #22282f;
    --good: #1e3b26; --bad: #4a2226; --work: #1c3250; }}
}}
text {{ font: {LETTER}px system-ui, sans-serif; fill: var(--text); }}
.head {{ font-weight: 600; }}
.note {{ fill: var(--faint); }}
.middle {{ text-anchor: middle; }}
.page {{ fill: var(--page); }}
rect {{ stroke: var(--line); }}
.plain {{ fill: var(--band); }} .good {{ fill: var(--good); }}
.bad {{ fill: var(--bad); }} .work {{ fill: var(--work); }}
.page, .group {{ stroke: none; }}
.group {{ fill: none; stroke: var(--line); stroke-dasharray: 5 4; }}
path {{ fill: none; stroke: var(--faint); stroke-width: 1.5; }}
.lane {{ stroke: var(--line); stroke-dasharray: 3 4; }}
.tip {{ fill: var(--faint); stroke: none; }}
"""


@dataclass
class Drawing:
    """A picture while it is drawn: its elements, and the height that they need."""

    title: str
    parts: list[str] = field(default_factory=list)
    height: float = 0.0

    def write(self, x: float, y: float, text: str, kind: str = "") -> None:
        """Write one line of text; `y` is its middle."""
        self.parts.append(f'<text x="{x:g}" y="{y + 5:g}" class="{kind}">{escape(text)}</text>')
        self.height = max(self.height, y + LINE)

    def draw_box(self, x: float, y: float, width: float, lines: Sequence[str], kind: str = "plain") -> float:
        """Draw a box with lines, the first of them bold. Returns the y of its lower edge."""
        height = len(lines) * LINE + 2 * PADDING
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" class="{kind}"/>')
        for index, line in enumerate(lines):
            middle = y + PADDING + LINE * index + LINE / 2
            self.write(x + width / 2, middle, line, "middle head" if index == 0 else "middle note")
        self.height = max(self.height, y + height)
        return y + height

    def draw_frame(self, x: float, y: float, width: float, height: float, title: str) -> None:
        """Draw a dashed frame around what belongs together."""
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" class="group"/>')
        self.write(x + PADDING, y + LINE / 2 + 4, title, "head")
        self.height = max(self.height, y + height)

    def draw_arrow(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Draw a straight arrow, level or upright."""
        (x1, y1), (x2, y2) = start, end
        self.parts.append(f'<path d="M{x1:g} {y1:g}L{x2:g} {y2:g}"/>')
        # From the tip back, and to its sides.
        back_x, back_y = (0 if x1 == x2 else 8 if x1 > x2 else -8), (0 if y1 == y2 else 8 if y1 > y2 else -8)
        side_x, side_y = back_y / 2, back_x / 2
        corners = f"{x2 + back_x + side_x:g} {y2 + back_y + side_y:g}L{x2 + back_x - side_x:g} {y2 + back_y - side_y:g}"
        self.parts.append(f'<path class="tip" d="M{x2:g} {y2:g}L{corners}Z"/>')

    def draw_lane(self, x: float, top: float, bottom: float) -> None:
        """Draw the time of somebody, downwards."""
        self.parts.append(f'<path class="lane" d="M{x:g} {top:g}V{bottom:g}"/>')

    def as_svg(self) -> str:
        """Return the file."""
        height = self.height + EDGE
        size = f'viewBox="0 0 {WIDTH} {height:g}" width="{SHOWN}" height="{SHOWN * height / WIDTH:.0f}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
        ground = f'<rect class="page" width="{WIDTH}" height="{height:g}"/>'
        title = f"<title>{escape(self.title)}</title>"
        return "\n".join([head, title, f"<style>{STYLE}</style>", ground, *self.parts, "</svg>", ""])


def draw_build() -> Drawing:
    """How a build works: from files to an image, and what is not built again."""
    drawing = Drawing("How dlc build makes an image")
    third = (WIDTH - 4 * EDGE) / 3
    inputs = (("buildspec/", "which image"), ("locks", "which packages"), ("docker/", "which steps"))
    middle = WIDTH / 2
    for index, lines in enumerate(inputs):
        x = EDGE + index * (third + EDGE)
        bottom = drawing.draw_box(x, EDGE, third, lines)
        drawing.draw_arrow((x + third / 2, bottom), (x + third / 2, bottom + 26))
    wide, left = WIDTH - 2 * EDGE, EDGE
    y = drawing.draw_box(
        left, bottom + 26, wide, ("the plan", "targets, each with a key: the hash of all it is made of")
    )
    drawing.draw_arrow((WIDTH / 4, y), (WIDTH / 4, y + 46))
    drawing.write(WIDTH / 4 + 10, y + 23, "key not there", "note")
    drawing.draw_arrow((WIDTH * 3 / 4, y), (WIDTH * 3 / 4, y + 46))
    drawing.write(WIDTH * 3 / 4 + 10, y + 23, "key is there", "note")
    half = (WIDTH - 3 * EDGE) / 2
    top = y + 46
    drawing.draw_box(2 * EDGE + half, top, half, ("nothing is built", "the engine has the image"), "good")
    y = drawing.draw_box(left, top, half, ("this host's part", "base files, wheels: checked"), "work")
    drawing.draw_arrow((WIDTH / 4, y), (WIDTH / 4, y + 26))
    y = drawing.draw_box(left, y + 26, half, ("docker buildx bake", "cached steps are kept"), "work")
    drawing.draw_arrow((WIDTH / 4, y), (WIDTH / 4, y + 26))
    top = y + 26
    drawing.draw_frame(left, top, wide, 5 * 35 + 34, "the image")
    layers = ("launcher and library", "training packages", "the framework", "CUDA, if it is for GPUs", "Debian")
    for index, name in enumerate(layers):
        drawing.draw_box(left + PADDING, top + 30 + index * 35, wide - 2 * PADDING, (name,))
    drawing.write(middle, top + 5 * 35 + 34 + 20, "the same files give the same bytes, on every host", "middle note")
    return drawing


def draw_job() -> Drawing:
    """How a job of several hosts starts and ends: who says what to whom, in time."""
    drawing = Drawing("How a job of two hosts starts and ends")
    lanes = {"dlc run": 64.0, "algo-1": 232.0, "algo-2": 400.0}
    width, top = 104.0, EDGE
    for name, x in lanes.items():
        bottom = drawing.draw_box(x - width / 2, top, width, (name,))
    run, first, second = lanes.values()
    y = bottom
    lane_parts = len(drawing.parts)

    def tell(start: float, end: float, text: str) -> None:
        """Draw an arrow from one lane to another, with its words above, between two lanes."""
        nonlocal y
        y += 44
        between = (run + first) / 2 if run in (start, end) else (first + second) / 2
        drawing.write(between, y - 14, text, "middle note")
        drawing.draw_arrow((start, y), (end, y))

    def do_together(lines: Sequence[str], kind: str = "plain") -> None:
        """Draw what both hosts do."""
        nonlocal y
        y = drawing.draw_box(first - 62, y + 14, second - first + 124, lines, kind)

    tell(run, first, "starts a container")
    tell(run, second, "and one more")
    tell(second, first, "I am here")
    do_together(("both prove the job's secret", "and compare image, ranks, ports"))
    do_together(("packages are installed", "all hosts are ready"))
    do_together(("processes run", "and the hosts hear each other"), "work")
    y += 8
    y = drawing.draw_box(second - 62, y + 10, 124, ("a rank fails", "exit code 1"), "bad")
    tell(second, first, "my rank 1 has failed")
    do_together(("the others end", "with time to save"), "bad")
    tell(first, run, "ends with 1")
    tell(second, run, "ends with 1")
    y = drawing.draw_box(
        EDGE,
        y + 14,
        WIDTH - 2 * EDGE,
        ("results of all hosts are collected", "the first failure is named, no container is left"),
        "good",
    )
    lines = Drawing("")
    for x in lanes.values():
        lines.draw_lane(x, bottom, y - 54)
    # Below all else.
    drawing.parts[lane_parts:lane_parts] = lines.parts
    return drawing


def draw_groups() -> Drawing:
    """How a job with data hosts and training hosts works."""
    drawing = Drawing("A job with data hosts and training hosts")
    box, high = 164.0, 3 * LINE + 2 * PADDING
    right = WIDTH - EDGE - box - PADDING
    tall = 30 + 2 * (high + 12)
    drawing.draw_frame(EDGE, EDGE, box + 2 * PADDING, tall, "data_group")
    drawing.draw_frame(right - PADDING, EDGE, box + 2 * PADDING, tall, "dnn_group")
    for index in range(2):
        y = EDGE + 30 + index * (high + 12)
        x = EDGE + PADDING
        drawing.draw_box(x, y, box, (f"algo-{index + 1}", "many CPUs, no GPU", "reads and prepares"))
        drawing.draw_box(right, y, box, (f"algo-{index + 3}", "GPUs", "trains"), "work")
        drawing.draw_arrow((x + box + PADDING, y + high / 2), (right - PADDING, y + high / 2))
        drawing.write((x + box + right) / 2, y + high / 2 - 14, "batches", "middle note")
    y = EDGE + tall + 20
    for line in (
        "Each training host takes batches from all data hosts.",
        "Each batch of an epoch is used once, by one host.",
        "Only the training hosts exchange gradients.",
        "When they have ended, the data hosts are ended.",
    ):
        drawing.write(EDGE, y, line)
        y += LINE + 3
    return drawing


PICTURES: dict[str, Callable[[], Drawing]] = {"build": draw_build, "job": draw_job, "groups": draw_groups}


def main() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw().as_svg())


if __name__ == "__main__":
    main()
