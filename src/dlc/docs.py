"""The documentation of built images, written from their facts: the table of the README, and docs/images.md. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dlc.facts import Facts, Package
from dlc.spdx_licence import declared

README, PAGE = "README.md", "docs/images.md"
BEGIN, END = "<!-- images: `dlc docs` writes this -->\n", "<!-- end of images -->\n"
LONGEST_LICENCE = 60  # characters; the SBOM has them whole
LONGEST_STEP = 90


def readme(document: str, images: Sequence[Facts]) -> str:
    """The README with its table of images written anew; the same text where it has no markers."""
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: BEGIN + table(images) + END, document,
                  flags=re.DOTALL)  # fmt: skip


def table(images: Sequence[Facts]) -> str:
    """One row per image. Nothing in it changes with the commit or the day of the build."""
    rows = ["| id | framework | device | Python | system | size |", "|---|---|---|---|---|---|"]
    for facts in images:
        label = facts.labels.get
        framework = f"{label('org.dlc.framework', '')} {label('org.dlc.framework.version', '')}".strip()
        device = label("org.dlc.device", "").replace("cpu", "CPU")
        cells = (f"`{name_of(facts)}`", framework, device, facts.python, facts.os, f"{facts.bytes / 1e9:.1f} GB")
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def page(images: Sequence[Facts]) -> str:
    """docs/images.md: what every image is made of."""
    intro = (
        "# Images\n\nWhat the built images hold. `dlc docs` writes this page from the images; `dlc sbom ID` has more.\n"
        "Sizes are unpacked, in thousand million (GB) and million (MB) bytes.\n\n"
    )
    return intro + table(images) + "".join(_section(facts) for facts in images)


def name_of(facts: Facts) -> str:
    """The identifier that the image carries as a label, else its reference."""
    return facts.labels.get("org.dlc.id", facts.ref)


def _section(facts: Facts) -> str:
    python, debian = facts.of_kind("python"), facts.of_kind("debian")
    lines = ["", f"## {name_of(facts)}", "", "| layer | MB |", "|---|---|"]
    lines += [f"| `{brief(step.command)}` | {step.bytes / 1e6:.0f} |" for step in facts.steps]
    lines += ["", f"### {len(python)} Python packages", "", "| package | version | licence | MB |", "|---|---|---|---|"]
    lines += [f"| {p.name} | {p.version} | {_licence(p)} | {p.bytes / 1e6:.1f} |" for p in python]
    lines += ["", f"### {len(debian)} Debian packages", ""]
    lines += _wrapped([f"{p.name} {p.version}" for p in debian])
    return "\n".join(lines) + "\n"


def brief(command: str) -> str:
    """What a build step comes down to: the scripts it runs with their first argument, else its first words."""
    scripts = re.findall(r"/scripts/([a-z-]+/[a-z-]+\.(?:sh|py)(?: [/$A-Za-z][^\s&]*)?)", command)
    words = ", ".join(scripts) or command.removesuffix("# buildkit").strip()
    return words if len(words) <= LONGEST_STEP else words[: LONGEST_STEP - 3] + "..."


def _licence(package: Package) -> str:
    expression = declared(package.licences)[0].replace("NOASSERTION", "-")
    return expression if len(expression) <= LONGEST_LICENCE else expression[: LONGEST_LICENCE - 3] + "..."


def _wrapped(names: Sequence[str]) -> list[str]:
    """Names separated by commas in lines of about 120 characters."""
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) > 118:
            lines.append("")
        lines[-1] += f"{name}, "
    return [line.rstrip() for line in lines[:-1]] + [lines[-1].rstrip(", ")]
