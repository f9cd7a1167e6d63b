"""The page of one image. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from dlc.buildspec.variant import normal_name
from dlc.buildspec.versions import parse_number
from dlc.core import labels
from dlc.core.text import format_bytes
from dlc.inspection.facts import Facts, Package, Step
from dlc.inspection.gpu import GPUS, GpuCode
from dlc.inspection.sbom import declared_licences
from dlc.site.changes import News, find_news
from dlc.site.checks import describe_checks, render_vulnerabilities
from dlc.site.elements import Child, Html, make_table, tag
from dlc.site.frame import FRAMEWORKS, make_badge, make_section, make_tiles, render_page
from dlc.site.treemap import Area, Group, render_treemap
from dlc.site.values import Catalogue, Entry

KINDS = {"debian": "Debian packages", "python": "Python packages", "dlc": "dlc", "others": "files of no package"}
# A word of a step's command -> what its layer holds. The first that matches counts.
CUDA, FRAMEWORK, TRAINING, OWN, SYSTEM = "CUDA's libraries", "the framework", "training packages", "dlc", "the system"
LAYERS = (
    (r"/lock/cuda\.txt", CUDA),
    (r"/lock/framework\.txt", FRAMEWORK),
    (r"/lock/training\.txt", TRAINING),
    (r"COPY /image/ /", OWN),
    (r"COPY / /", SYSTEM),
)
# A file of the lock -> the layer that its packages are in.
LOCKED_IN = {"cuda.txt": CUDA, "framework.txt": FRAMEWORK}
# Packages and Debian packages that compile, on the host or when a job runs.
COMPILERS = {
    "torch": "TorchInductor",
    "triton": "Triton, which TorchInductor compiles for GPUs with",
    "torch-xla": "PyTorch/XLA",
    "g++": "C++, for TorchInductor on the CPU and for packages from source",
    "nvidia-cuda-nvcc": "ptxas of CUDA",
    "tensorflow": "XLA of TensorFlow",
    "tensorflow-cpu": "XLA of TensorFlow",
}
# Its PyTorch.
FIRST_INDUCTOR = parse_number("2")
LONGEST_COMMAND = 160
NOT_BUILT = "No engine that was asked has this image, so there is no size, licence or digest. It is built by "


def render_image(entry: Entry, catalogue: Catalogue) -> str:
    """Return the page of an image."""
    variant, built = entry.variant, entry.built
    framework = FRAMEWORKS.get(variant.header.framework, variant.header.framework)
    platform = f"--platform {variant.platform.name} " if variant.platform.suffix else ""
    body: list[Child] = [
        tag("h1", entry.id),
        tag(
            "p",
            f"{framework} {variant.header.version} for {variant.header.job}. ",
            _describe_state(entry),
        ),
        _render_tiles(entry),
        tag("pre", tag("code", f"docker run --rm {platform}{variant.ref} --explain"), tabindex=0),
        make_section("Checks", make_table(("check", "result"), describe_checks(entry), class_="facts")),
        make_section("Identity", make_table(("what", "value"), _list_identity(entry), class_="facts")),
        _render_size(entry, built.facts) if built else tag("p", NOT_BUILT, tag("code", f"dlc build {entry.id}"), "."),
        _render_news(find_news(entry, catalogue.entries)),
        make_section("Compilers", _render_compilers(entry)),
        make_section("GPUs", _render_gpus(entry)),
        make_section("Vulnerabilities", render_vulnerabilities(entry)),
        make_section("Licences", _render_licences(entry)),
        make_section("Packages", _render_packages(entry)),
        make_section("What it lacks", _render_lacks(entry)),
    ]
    return render_page(catalogue, entry.path, entry.id, body)


def _describe_state(entry: Entry) -> Child:
    header = entry.variant.header
    if header.unsupported:
        return make_badge("bad", "unsupported"), f" {header.unsupported}"
    if entry.stale:
        return make_badge("note", "stale lock"), f" {entry.stale}"
    return f"Fixes until {header.eop}." if header.eop else None


def _render_tiles(entry: Entry) -> Html:
    settings, built = entry.variant.settings, entry.built
    figures: dict[str, Child] = {
        "framework": entry.variant.framework_requirements[0].replace("==", " "),
        "device": settings.device.replace("cpu", "CPU"),
        "Python": built.facts.python if built else settings.python,
        "system": settings.base.image or f"debian-{entry.variant.suite}",
    }
    if built:
        figures["unpacked"] = format_bytes(built.facts.bytes)
        figures["packages"] = len(built.facts.packages)
    else:
        figures["locked packages"] = len(entry.locked)
        figures["budget"] = f"{settings.budget.gigabytes} GB"
    return make_tiles(figures)


def _list_identity(entry: Entry) -> Iterator[tuple[Child, Child]]:
    """Yield names and digests: what a machine calls the image."""
    built = entry.built
    names = built.tags if built else (entry.variant.ref,)
    yield "tags", [[tag("code", name), " "] for name in names]
    if built:
        yield "digest in the engine", tag("code", built.facts.digest)
        if built.pushed:
            yield "pushed as", [[tag("code", name), " "] for name in built.pushed]
        yield "content key", (tag("code", built.facts.labels.get(labels.KEY, "none")), " ", _compare_keys(entry))
        yield "created", built.facts.created[:19].replace("T", " ")
        yield "commit", tag("code", built.facts.labels.get(labels.REVISION, "unknown"))
        yield "platform", built.facts.labels.get(labels.PLATFORM, entry.variant.settings.platform)
    elif entry.key:
        yield "content key of the recipes", tag("code", entry.key)
    yield "lock", tag("code", entry.variant.lock_folder)
    earlier = [each for each in entry.memory.digests if not built or each.digest != built.facts.digest]
    if earlier:
        yield "earlier digests", [tag("div", tag("code", each.digest), f" {each.day}, {format_bytes(each.bytes)}")
                                  for each in reversed(earlier)]  # fmt: skip


def _compare_keys(entry: Entry) -> Child:
    if not entry.built or not entry.key:
        return None
    if entry.built.facts.labels.get(labels.KEY) == entry.key:
        return make_badge("good", "built from these recipes")
    return make_badge("note", f"the recipes give {entry.key[:12]}")


def _render_size(entry: Entry, facts: Facts) -> Html:
    keys = [tag("span", tag("i", class_=f"key {kind}"), name) for kind, name in KINDS.items()]
    whole = tag("p", f"{format_bytes(facts.bytes)} unpacked, in {len(facts.steps)} layers, by the packages in them.")
    drawing = render_treemap(group_layers(facts, entry.lock_files), "layers and their packages, by bytes")
    rows = [(number, name_layer(step), format_bytes(step.bytes), tag("code", step.command[:LONGEST_COMMAND]))
            for number, step in enumerate(facts.steps, 1)]  # fmt: skip
    table = make_table(("layer", "holds", "size", "made by"), rows, class_="cards")
    figure = tag("figure", tag("figcaption", keys), drawing)
    return make_section("Size", whole, figure, tag("details", tag("summary", "Layers"), table))


def group_layers(facts: Facts, lock_files: Mapping[str, str]) -> list[Group]:
    """Return the layers with the packages that are in them, as their lock and their kind say."""
    steps: dict[str, list[Step]] = {}
    for step in facts.steps:
        steps.setdefault(name_layer(step), []).append(step)
    groups = []
    for name, own in steps.items():
        packages = [package for package in facts.packages if _find_layer(package, lock_files, steps) == name]
        areas = [Area(p.name, p.bytes, p.kind, f"{p.version}, {p.files} files") for p in packages]
        total = sum(step.bytes for step in own)
        rest = Area(KINDS["others"], total - sum(area.bytes for area in areas), "others")
        detail = own[0].command[:LONGEST_COMMAND]
        groups.append(Group(name, total, (*areas, rest) if areas else (), detail))
    return groups


def _find_layer(package: Package, lock_files: Mapping[str, str], layers: Collection[str]) -> str:
    if package.kind != "python":
        return SYSTEM if package.kind == "debian" else OWN
    found = LOCKED_IN.get(lock_files.get(normal_name(package.name), ""), TRAINING)
    return found if found in layers else FRAMEWORK


def name_layer(step: Step) -> str:
    """Return what a layer holds, by the command that made it; else the beginning of the command."""
    return next((name for pattern, name in LAYERS if re.search(pattern, step.command)), step.command[:40])


def _render_news(news: News | None) -> Html:
    title = "New against the version before"
    if news is None:
        return make_section(title, tag("p", "This is the first version with images of this kind."))
    before = tag("a", news.before.id, href=f"{news.before.id}.html")
    counts = ", ".join(f"{count} {what}" for what, count in news.counts.items())
    grown = f" It takes {news.bytes / 1e6:+,.1f} MB." if news.bytes is not None else ""
    rows = [(change.name, change.before or "\u2013", change.after or "\u2013") for change in news.settings]
    packages = [(change.name, change.before or make_badge("good", "new"), change.after or make_badge("bad", "gone"))
                for change in news.packages]  # fmt: skip
    heads = ("what", "before", "now")
    return make_section(
        title,
        tag("p", "Against ", before, f", by their locks: {counts}.{grown}"),
        make_table(heads, rows, class_="cards") if rows else None,
        tag("details", tag("summary", f"{len(packages)} packages"),
            make_table(("package", *heads[1:]), packages, data_filter="filter packages")) if packages else None,
    )  # fmt: skip


def _render_compilers(entry: Entry) -> Child:
    variant = entry.variant
    versions = dict(entry.locked)
    if entry.built:
        versions |= {package.name: package.version for package in entry.built.facts.of_kind("debian")}
    else:
        versions |= dict.fromkeys((*variant.settings.base.os_packages, *variant.settings.os_packages), "from Debian")
    rows = [(name, versions[full], what) for name, what in COMPILERS.items()
            for full in sorted(versions) if full == name or full.startswith(f"{name}-cu")
            if name != "torch" or parse_number(versions[full]) >= FIRST_INDUCTOR]  # fmt: skip
    default = variant.settings.env.get("DLC_COMPILER_DEFAULT")
    text = (
        tag("p", "A job that asks for a compiler and names none gets ", tag("code", default), ".") if default else None
    )
    return (text, make_table(("compiler", "version", "for"), rows, class_="cards")) if rows else text


def _render_gpus(entry: Entry) -> Child:
    device, built = entry.variant.settings.device, entry.built
    if device == "cpu":
        return tag("p", "The image is for the CPU.")
    cuda = f"Built for CUDA {device[2:-1]}.{device[-1]}."
    if built is None or built.gpu is None:
        return tag("p", cuda, " For which GPUs it holds code is read from the image when it is built.")
    return tag("p", cuda, " ", _list_code(built.gpu)), make_table(("GPU", "capability", "runs"), _list_gpus(built.gpu))


def _list_code(code: GpuCode) -> str:
    def show(values: Sequence[int]) -> str:
        return ", ".join(f"{value // 10}.{value % 10}" for value in values) or "none"

    return f"Machine code of the framework: {show(code.machine)}; PTX: {show(code.ptx)}."


def _list_gpus(code: GpuCode) -> Iterator[tuple[Child, ...]]:
    kinds = {"yes": "good", "PTX": "note", "no": "bad"}
    for name, capability in GPUS.items():
        answer = code.support(capability)
        yield name, f"{capability // 10}.{capability % 10}", make_badge(kinds[answer], answer)


def _render_licences(entry: Entry) -> Child:
    whole = entry.licences
    if entry.built is None:
        return tag("p", "Of the kinds: ", whole, ".") if whole else None
    grouped: dict[str, list[str]] = {}
    for package in entry.built.facts.packages:
        grouped.setdefault(declared_licences(package.licences)[0], []).append(package.name)
    rows = [(licence.replace("NOASSERTION", "none named"), len(names), ", ".join(sorted(names)))
            for licence, names in sorted(grouped.items(), key=lambda item: -len(item[1]))]  # fmt: skip
    return (
        tag("p", "As the image's label says: ", entry.built.facts.labels.get(labels.LICENSES, whole) or "nothing", ". ",
            tag("a", "Bill of materials", href=posixpath.basename(entry.bill_path)), " (SPDX 2.3)."),
        tag("details", tag("summary", f"{len(rows)} licences and combinations, by what packages declare"),
            make_table(("licence", "packages", "which"), rows, class_="cards", data_filter="filter licences")),
    )  # fmt: skip


def _render_packages(entry: Entry) -> Child:
    built = entry.built
    if built is None:
        rows: list[tuple[Child, ...]] = [(name, version) for name, version in sorted(entry.locked.items())]
        heads: tuple[str, ...] = ("package", "version")
    else:
        heads = ("package", "version", "kind", "size")
        ordered = sorted(built.facts.packages, key=lambda package: -package.bytes)
        rows = [(p.name, p.version, KINDS[p.kind].partition(" ")[0], format_bytes(p.bytes)) for p in ordered]
    if not rows:
        return None
    table = make_table(heads, rows, data_filter="filter packages")
    return tag("details", tag("summary", f"{len(rows)} packages"), table)


def _render_lacks(entry: Entry) -> Child:
    lacks = {**entry.variant.header.unavailable, **entry.variant.missing}
    return make_table(("what", "why"), lacks.items(), class_="facts") if lacks else None
