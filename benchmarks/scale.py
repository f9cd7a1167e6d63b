"""Computes the tables of docs/scale.md: what a job of 8 to 1,000 hosts loses to failures, and what its start waits for.

usage: python benchmarks/scale.py docs/scale.md     writes the tables into the page, between their marks
       python benchmarks/scale.py --unpack FILE     measures how fast one core unpacks it, for UNPACK_MB
       python benchmarks/scale.py --packed WHEEL... says how much smaller wheels are than their content, for PACKED

The tables follow from the constants below, each with its source, and from `dlc.advice.failures`, which
`dlc advise --hosts N --mtbf H` uses too.
"""

from __future__ import annotations

import argparse
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from dlc.advice.failures import DAY, HOUR, Reliability, find_losses, format_time

HOSTS = (8, 64, 512, 1000)
# Seconds of a save and of a restart in the table of losses: those that `dlc advise` assumes.
SAVE, RESTART = 60.0, 600.0


@dataclass(frozen=True)
class Report:
    """How often the hosts of a public cluster failed, as its report counts it."""

    name: str
    # What the report says, in its own units.
    says: str
    # The same as seconds between the failures of one host.
    host_mtbf: float
    link: str


REPORTS = (
    Report(
        "RSC-1 of Meta, 2,000 hosts with 8 A100", "6.50 failures in 1,000 days of a host", 1000 * DAY / 6.5,
        "https://arxiv.org/abs/2410.21680",
    ),
    Report(
        "RSC-2 of Meta, 1,000 hosts with 8 A100", "2.34 failures in 1,000 days of a host", 1000 * DAY / 2.34,
        "https://arxiv.org/abs/2410.21680",
    ),
    Report(
        "Llama 3, 2,048 hosts with 8 H100", "419 unexpected interruptions in 54 days", 54 * DAY * 2048 / 419,
        "https://arxiv.org/abs/2407.21783",
    ),
    Report(
        "BLOOM, 50 hosts with 8 A100", "1 to 2 failing GPUs a week", 7 * DAY * 50 / 1.5,
        "https://huggingface.co/blog/bloom-megatron-deepspeed",
    ),
    Report(
        "OPT-175B, 124 hosts with 8 A100", "35 restarts by hand and about 70 by programs, in 2 months",
        61 * DAY * 124 / 105, "https://arxiv.org/abs/2205.01068",
    ),
)  # fmt: skip

# The image in the table of starts: pytorch-2.15-training-cu132-py313 (docs/measurements.md#sizes), in thousand million
# bytes.
UNPACKED_GB = 5.51
# What a layer is smaller by: `--packed` with 15 wheels, torch 2.14.1 and those of CUDA 13 that it asks for.
# `dlc size` lets a push send three quarters at most.
PACKED = 0.61
PUSHED_GB = UNPACKED_GB * PACKED
# CUDA's libraries without cuDNN and NCCL, which frameworks share (docs/measurements.md#sizes).
SHARED_GB = 2.17
# Of an image's bytes, those that were read until a container began its work: the Slacker paper's mean of 57 images.
READ_SHARE = 0.064
# Thousand thousand bytes that one core unpacks in a second: `--unpack` with libtorch_cpu.so of torch 2.13.0+cpu, five
# times on the host of docs/measurements.md with other work beside it: 163 to 273.
UNPACK_MB = 200.0
UNPACK_SECONDS = UNPACKED_GB * 1e9 / (UNPACK_MB * 1e6)
# Gbit/s of a host, as a g5.8xlarge has them (buildspec/instances.yml; a p4d.24xlarge has 400).
HOST_GBIT = 25.0
GIGABIT, GIGABYTE = 1e9, 1e9
BITS = 8
# Requests for layers that ECR answers in a second: the default quota of GetDownloadUrlForLayer in a region.
ECR_LAYERS_PER_SECOND = 3000
# CUDA's libraries, framework, packages, system, launcher (docs/decisions/0027).
LAYERS = 5


def make_rates_table() -> list[tuple[str, ...]]:
    """Return a row for each public cluster: what it says, and how often one host, and jobs of it, fail."""
    heads = ("cluster", "its report says", "one host fails each", *(f"{count:,} hosts" for count in HOSTS))
    rows = [
        (
            f"[{each.name}]({each.link})",
            each.says,
            f"{each.host_mtbf / HOUR:,.0f} h",
            *(format_time(each.host_mtbf / count) for count in HOSTS),
        )
        for each in REPORTS
    ]
    return [heads, *rows]


def make_losses_table() -> list[tuple[str, ...]]:
    """Return a row for each number of hosts: cadence and losses with the rates of RSC-1 and RSC-2, the widest apart."""
    rows = [("hosts", "rate of", "save each", "lost", "saves", "done again", "restarts", "hosts' hours lost a day")]
    for hosts in HOSTS:
        for report in REPORTS[:2]:
            losses = find_losses(Reliability(hosts, report.host_mtbf, SAVE, RESTART))
            shares = (losses.lost, losses.saving, losses.repeating, losses.restarting)
            rows.append((
                f"{hosts:,}", report.name.partition(" ")[0], format_time(losses.interval),
                *(f"{share:.1%}" for share in shares), f"{losses.lost * hosts * 24:,.0f}",
            ))  # fmt: skip
    return rows


def make_levers_table() -> list[tuple[str, ...]]:
    """Return what is lost by 1,000 hosts of RSC-1 if saves, or restarts, are shorter or longer."""
    saves, restarts = (5.0, 60.0, 300.0), (120.0, 600.0, 1800.0)
    rows = [("a save takes", *(f"a restart takes {format_time(restart)}" for restart in restarts))]
    for save in saves:
        found = [find_losses(Reliability(HOSTS[-1], REPORTS[0].host_mtbf, save, restart)).lost for restart in restarts]
        rows.append((format_time(save), *(f"{lost:.1%}" for lost in found)))
    return rows


def seconds_to_send(gigabytes: float, hosts: int = 1, registry_gbit: float = 0.0) -> float:
    """Return until all hosts have so many bytes; a registry without a limit sends to each as fast as that takes it."""
    own = gigabytes * GIGABYTE * BITS / (HOST_GBIT * GIGABIT)
    together = hosts * gigabytes * GIGABYTE * BITS / (registry_gbit * GIGABIT) if registry_gbit else 0.0
    return max(own, together)


def seconds_to_pull(hosts: int, registry_gbit: float, shared_gb: float = 0.0) -> float:
    """Return until an image is sent and unpacked, both at the same time; a part of it is there already."""
    part = 1 - shared_gb / UNPACKED_GB
    return max(part * UNPACK_SECONDS, seconds_to_send(part * PUSHED_GB, hosts, registry_gbit))


def seconds_by_tree(hosts: int) -> float:
    """Return the same if each host passes each layer on to two others as soon as it has it."""
    levels = hosts.bit_length()
    return max(UNPACK_SECONDS, seconds_to_send(PUSHED_GB) * 2 + levels * seconds_to_send(SHARED_GB * PACKED) * 2)


def make_pulls_table() -> list[tuple[str, ...]]:
    """Return how long it takes until the image is on all hosts, by the way it comes there."""
    ways: Sequence[tuple[str, Callable[[int], float]]] = (
        ("a registry with 10 Gbit/s", lambda hosts: seconds_to_pull(hosts, 10)),
        ("a registry with 100 Gbit/s", lambda hosts: seconds_to_pull(hosts, 100)),
        ("the same; the hosts have CUDA's layer already", lambda hosts: seconds_to_pull(hosts, 100, SHARED_GB)),
        ("the same, pulled lazily; until the script begins",
         lambda hosts: seconds_to_send(PUSHED_GB * READ_SHARE, hosts, 100)),
        ("an object store without a limit, such as that of ECR",
         lambda hosts: max(seconds_to_pull(hosts, 0), hosts * LAYERS / ECR_LAYERS_PER_SECOND)),
        ("hosts that pass layers on to each other", seconds_by_tree),
        ("each host has it: a cache of the node, an image of the machine", lambda _: 0.0),
    )  # fmt: skip
    heads = ("the image comes from", *(f"{count:,} hosts" for count in HOSTS))
    return [heads, *((name, *(format_time(way(count)) for count in HOSTS)) for name, way in ways)]


TABLES: Mapping[str, Callable[[], list[tuple[str, ...]]]] = {
    "rates": make_rates_table,
    "losses": make_losses_table,
    "levers": make_levers_table,
    "pulls": make_pulls_table,
}


def write_tables(page: str) -> str:
    """Return the page with each table between its marks. Raises SystemExit for a mark that the page lacks."""
    for name, make in TABLES.items():
        begin, end = f"<!-- {name}: benchmarks/scale.py writes this -->\n", f"<!-- end of {name} -->"
        if begin not in page or end not in page:
            raise SystemExit(f"the page lacks the marks of the table {name!r}")
        heads, *rows = make()
        lines = [heads, tuple("---" for _ in heads), *rows]
        text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
        before, _, rest = page.partition(begin)
        page = before + begin + text + end + rest.partition(end)[2]
    return page


def measure_unpacking(file: Path) -> float:
    """Return thousand thousand bytes that one core unpacks of this file in a second, packed as a layer is."""
    packed = zlib.compress(file.read_bytes(), 1)
    begin = time.process_time()
    size = len(zlib.decompress(packed))
    return size / 1e6 / (time.process_time() - begin)


def measure_packing(wheels: Sequence[Path]) -> float:
    """Return the share of their content's bytes that wheels take, packed by deflate as a layer is."""
    files = [info for wheel in wheels for info in zipfile.ZipFile(wheel).infolist()]
    return sum(info.compress_size for info in files) / sum(info.file_size for info in files)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("page", nargs="?", type=Path, metavar="PAGE", help="docs/scale.md")
    parser.add_argument("--unpack", type=Path, metavar="FILE", help="measure this file")
    parser.add_argument("--packed", nargs="+", type=Path, default=[], metavar="WHEEL", help="measure these wheels")
    args = parser.parse_args()
    if not (args.page or args.unpack or args.packed):
        parser.error("expected PAGE, --unpack or --packed")
    if args.unpack:
        print(f"unpacked by one core: {measure_unpacking(args.unpack):.0f} MB/s of {args.unpack}")
    if args.packed:
        print(f"packed: {measure_packing(args.packed):.2f} of the content of {len(args.packed)} wheels")
    if args.page:
        args.page.write_text(write_tables(args.page.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
