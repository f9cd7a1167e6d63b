"""The documentation of images, written from the facts of built ones: the README's table, and docs/images.md. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dlc.core.labels import DEVICE, FRAMEWORK, FRAMEWORK_VERSION, ID, OS, PYTHON
from dlc.inspection.facts import Facts, Package
from dlc.inspection.licences import declared
from dlc.plan.targets import Target

README, PAGE = "README.md", "docs/images.md"
BEGIN, END = "<!-- images: `dlc docs` writes this -->\n", "<!-- end of images -->\n"
INTRO = (
    "# Images\n\nWhat the built images hold. `dlc docs` writes this page from the images; `dlc sbom ID` has more.\n"
    "Sizes are unpacked, in thousand million (GB) and million (MB) bytes.\n\n"
)
HEAD = ("| id | framework | device | Python | system | size |", "|---|---|---|---|---|---|")
NOT_BUILT = "not built yet"
LONGEST_LICENCE = 60  # characters; the SBOM has them whole
LONGEST_STEP = 90


def readme(document: str, targets: Sequence[Target], images: Sequence[Facts]) -> str:
    """The README with its table of images written anew; the same text where it has no markers."""
    written = BEGIN + table(document, targets, images) + END
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: written, document, flags=re.DOTALL)


def page(document: str, targets: Sequence[Target], images: Sequence[Facts]) -> str:
    """docs/images.md: what every image is made of. The section of an image that is not among `images` stays."""
    sections = {**_sections(document), **{name_of(facts): _section(facts) for facts in images}}
    return "\n".join([INTRO + table(document, targets, images), *(sections[t.id] for t in targets if t.id in sections)])


def table(document: str, targets: Sequence[Target], images: Sequence[Facts]) -> str:
    """One row for each of `targets`, in their order: of `images`, else as it stands in `document`, else NOT_BUILT."""
    rows = {**_rows(document), **{name_of(facts): row(facts) for facts in images}}
    return "\n".join([*HEAD, *(rows.get(target.id) or _row_without_image(target) for target in targets)]) + "\n"


def row(facts: Facts) -> str:
    """A built image's line of the table. Nothing in it changes with the commit or the day of the build."""
    return _row(name_of(facts), facts.labels, facts.python, facts.os, f"{facts.bytes / 1e9:.1f} GB")


def _row_without_image(target: Target) -> str:
    says = target.labels
    return _row(target.id, says, says[PYTHON], says[OS], NOT_BUILT)


def _row(identifier: str, labels: Mapping[str, str], python: str, system: str, size: str) -> str:
    framework = f"{labels.get(FRAMEWORK, '')} {labels.get(FRAMEWORK_VERSION, '')}".strip()
    device = labels.get(DEVICE, "").replace("cpu", "CPU")
    return f"| {' | '.join((f'`{identifier}`', framework, device, python, system, size))} |"


def _rows(document: str) -> dict[str, str]:
    """The lines that open with an identifier, by it; without those that only say that there is no image."""
    found = re.findall(r"^(\| `([^`]+)` \|.*)$", document, re.MULTILINE)
    return {identifier: line for line, identifier in found if NOT_BUILT not in line}


def _sections(document: str) -> dict[str, str]:
    """What stands under each heading of the second level, by it."""
    found = re.split(r"^(?=## )", document, flags=re.MULTILINE)[1:]
    return {text.splitlines()[0].removeprefix("## "): text.rstrip() + "\n" for text in found}


def name_of(facts: Facts) -> str:
    """The identifier that the image carries as a label, else its reference."""
    return facts.labels.get(ID, facts.ref)


def _section(facts: Facts) -> str:
    python, debian = facts.of_kind("python"), facts.of_kind("debian")
    lines = [f"## {name_of(facts)}", "", "| layer | MB |", "|---|---|"]
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
