"""`dlc advise`: which machines make a training job cheaper, and how often a job of many hosts should save."""

from __future__ import annotations

import argparse
from pathlib import Path

from dlc.advice.cost_model import (
    MEASURED,
    Catalogue,
    Estimate,
    make_catalogue,
    parse_cluster,
)
from dlc.advice.profile_report import read_profile
from dlc.buildspec.instances import read_instances
from dlc.cli.shared.advise_failures import (
    add_failures,
    find_failures,
    name_one_host,
    read_reliability,
)
from dlc.cli.shared.advise_words import (
    Found,
    add_cluster,
    advise_from_words,
    parse_prices,
    print_advice,
    split_pair,
)
from dlc.cli.shared.arguments import add_json, parse_positive
from dlc.core.checkout import read_workspace
from dlc.core.errors import UsageError

HELP = "say which machines make a training job faster and cheaper, and how often a job of many hosts should save"
EXAMPLE = "dlc advise --on p4d.24xlarge --step-ms 86 --cpu-seconds 2.304"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add REPORT, what was measured, the cluster, what to compare it with, and how to print it."""
    parser.add_argument(
        "report", nargs="*", type=Path, metavar="REPORT", help="what DLC_PROFILE=1 wrote: its folder, or files of it"
    )
    add_cluster(parser)
    measured = parser.add_argument_group("what was measured, where no report says it")
    add = measured.add_argument
    add("--cpu-seconds", type=parse_positive, metavar="S", help="CPU seconds that prepare one batch for one GPU")
    add("--batch-mb", type=parse_positive, metavar="MB", help="size of that batch, for the network between hosts")
    add(
        "--measured", action="append", default=[], metavar="CLUSTER=MS",
        help="a step measured on a cluster, such as 'p4d.24xlarge+2*c5.18xlarge=86'; the first is compared with",
    )  # fmt: skip
    add_failures(parser)
    parser.add_argument("--svg", type=Path, metavar="FILE", help="also write the chart as an SVG file")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the advice. Raises UsageError if too little was given."""
    reliability = read_reliability(args)
    if reliability and args.on:
        # The advice is about one of the hosts: each needs as many data hosts as the others.
        args.on = name_one_host(args.on, args.hosts)
    machines = make_catalogue(read_instances(read_workspace()), parse_prices(args.price))
    profile = read_profile(args.report) if args.report else None
    measured = tuple(_parse_measured(machines, text) for text in args.measured)
    step = args.step_ms / 1000 if args.step_ms else profile.step if profile else None
    cpu = args.cpu_seconds or (profile.cpu if profile else None)
    advice = None
    if step and cpu:
        size = args.batch_mb * 1e6 if args.batch_mb else profile.batch_bytes if profile else 0.0
        advice = advise_from_words(args, machines, step, cpu, size, profile)
    elif not (measured or (reliability and not step and not cpu)):
        absent = [name for name, value in (("--step-ms", step), ("--cpu-seconds", cpu)) if not value]
        raise UsageError(f"dlc advise: expected {' and '.join(absent)}, or a REPORT that says it", "dlc profile --help")
    failures = find_failures(args, machines, reliability, advice) if reliability else None
    print_advice(args, Found(profile, advice, measured, failures))
    return 0


def _parse_measured(machines: Catalogue, text: str) -> Estimate:
    name, value = split_pair("--measured", text, "CLUSTER=MS")
    return Estimate(parse_cluster(machines, name, "--measured"), value / 1000, MEASURED, None)
