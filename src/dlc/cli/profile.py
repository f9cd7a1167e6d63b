"""`dlc profile`: what a training job waits for, from a short run or its report, and which machines would help."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from dlc.advice.cost_model import make_catalogue
from dlc.advice.profile_report import LOOP, WATCH, Profile, read_profile
from dlc.advice.profile_text import summarize
from dlc.advice.render import profile_json
from dlc.buildspec.instances import read_instances
from dlc.cli.shared.advise_words import (
    Found,
    add_cluster,
    advise_from_words,
    parse_prices,
    print_advice,
)
from dlc.cli.shared.arguments import add_json, parse_count, print_json, print_text, show_step
from dlc.cli.shared.local_jobs import make_local_job
from dlc.cli.shared.own_words import BEHIND_SCRIPT
from dlc.core.checkout import read_workspace
from dlc.core.errors import ProfileError, UnmeasuredError, UsageError
from dlc.job.code_files import RESULTS
from dlc.job.words import add_flags
from dlc.places.local.run import run_job

HELP = "say what a training job waits for, from a short run of it, or from the report that DLC_PROFILE=1 wrote"
EXAMPLE = "dlc profile --on p4d.24xlarge pytorch-2.13-training-cpu-py311 train.py --epochs 3"
# ID and SCRIPT may have options between them.
INTERMIXED = True
BEHIND = BEHIND_SCRIPT
# So many steps a run measures.
STEPS = 100
# The reports' place among the collected results.
REPORTS = "output/profile"


def ends_own_words(found: Sequence[str]) -> bool:
    """Tell whether the last of these words is a script: behind reports there is nothing."""
    return _is_job(found)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ID and SCRIPT of a job as `dlc run` has it, or REPORT; and the machines as `dlc advise` has them."""
    parser.usage = "%(prog)s [OPTIONS] ID SCRIPT [ARGUMENT...]\n       %(prog)s [OPTIONS] REPORT..."
    parser.add_argument(
        "report", nargs="+", metavar="ID SCRIPT | REPORT",
        help="an image and the entry point of a job, which is started; or what DLC_PROFILE=1 wrote, a folder or files",
    )  # fmt: skip
    parser.add_argument(
        "--steps", type=parse_count, default=STEPS, metavar="N",
        help=f"that a job is measured for, then it ends and saves nothing (default: {STEPS})",
    )  # fmt: skip
    add_flags(parser)
    parser.add_argument("--output", metavar="DIR", help=f"of a job: where the results go (default: {RESULTS}/JOB)")
    add_cluster(parser)
    parser.add_argument("--svg", type=Path, metavar="FILE", help="with --on: also write the chart as an SVG file")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print what was measured; with --on, the advice too. Return the exit code of a job that failed."""
    if _is_job(args.report):
        image, script = args.report
        words = {**vars(args), "image": image, "script": script, "env": [*args.env, *_list_switches(args)]}
        job = make_local_job(argparse.Namespace(**words), "profile").job
        # What the job prints is no part of the answer.
        with contextlib.redirect_stdout(sys.stderr):
            if code := run_job(job, show=show_step):
                return code
        if not (job.folder / REPORTS).is_dir():
            raise UnmeasuredError(f"{script}: expected {LOOP}, found none; the job itself ended well", WATCH)
        args.report = [job.folder / REPORTS]
    elif args.arguments:
        raise UsageError("dlc profile: expected ID SCRIPT before the --, found a report", "dlc profile --help")
    args.report = [Path(word) for word in args.report]
    return print_profile(args, read_profile(args.report))


def _is_job(words: Sequence[str]) -> bool:
    """Tell whether two words, of which the first is no file or folder, are an image and a script."""
    return len(words) == 2 and not Path(words[0]).exists()


def _list_switches(args: argparse.Namespace) -> tuple[str, ...]:
    return "DLC_PROFILE=1", "DLC_PROFILE_ENDS_JOB=1", f"DLC_PROFILE_STEPS={args.steps}"


def print_profile(args: argparse.Namespace, profile: Profile) -> int:
    """Print the same for a profile that is already here: what starts a run to measure it ends with this."""
    if args.on and profile.cpu is None:
        raise ProfileError(
            f"{args.report[0]}: the CPU seconds of a batch could not be seen, and advice needs them",
            "dlc advise REPORT --on CLUSTER --cpu-seconds S",
        )
    if args.on and profile.cpu:
        machines = make_catalogue(read_instances(read_workspace()), parse_prices(args.price))
        step = args.step_ms / 1000 if args.step_ms else profile.step
        advice = advise_from_words(args, machines, step, profile.cpu, profile.batch_bytes, profile)
        print_advice(args, Found(profile, advice, ()))
    elif args.json:
        print_json({"profile": profile_json(profile)})
    else:
        print_text(summarize(profile))
    return 0
