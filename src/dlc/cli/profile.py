"""`dlc profile`: what a training job waits for, from the report of a short run, and which machines would help."""

from __future__ import annotations

import argparse
from pathlib import Path

from dlc.buildspec.instances import read_instances
from dlc.cli import advise
from dlc.cli.arguments import add_json, print_json
from dlc.core.checkout import find_root, read_tree
from dlc.core.errors import ProfileError
from dlc.jobs.advice.machines import catalogue
from dlc.jobs.advice.output import profile_json
from dlc.jobs.advice.profiles import Profile, read_profile, summary

HELP = "say what a training job waits for, from the report that DLC_PROFILE=1 wrote"
EXAMPLE = "dlc profile output/data/profile --on p4d.24xlarge"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """REPORT, and the machines as `dlc advise` has them."""
    parser.add_argument(
        "report", nargs="+", type=Path, metavar="REPORT", help="what DLC_PROFILE=1 wrote: its folder, or files of it"
    )
    advise.add_cluster(parser)
    parser.add_argument("--svg", type=Path, metavar="FILE", help="with --on: also write the chart as an SVG file")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print what was measured; with --on, the advice too."""
    return say(args, read_profile(args.report))


def say(args: argparse.Namespace, profile: Profile) -> int:
    """The same for a profile that is already here: what starts a run to measure it ends with this."""
    if args.on and profile.cpu is None:
        raise ProfileError(
            f"{args.report[0]}: the CPU seconds of a batch could not be seen, and advice needs them",
            "dlc advise REPORT --on CLUSTER --cpu-seconds S",
        )
    if args.on and profile.cpu:
        machines = catalogue(read_instances(read_tree(find_root())), advise.prices(args.price))
        advice = advise.advised(args, machines, profile.step, profile.cpu, profile.batch_bytes, profile)
        advise.show(args, advise.Found(profile, advice, ()))
    elif args.json:
        print_json({"profile": profile_json(profile)})
    else:
        print(summary(profile))
    return 0
