"""`dlc tune-batch`: the largest batch of a training script that fits, and the learning rate that goes with it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from dlc.cli.shared.arguments import add_json, parse_count, parse_number, print_json, print_text, show_step
from dlc.cli.shared.local_jobs import make_local_job
from dlc.cli.shared.own_words import BEHIND_SCRIPT
from dlc.core.errors import UsageError
from dlc.engine.connection import find_engine_for_job
from dlc.job.code_files import RESULTS
from dlc.job.words import add_flags
from dlc.places.local.claims import claims_folder
from dlc.tune import output
from dlc.tune.request import Request, check_job, list_modes, read_batch, read_number
from dlc.tune.tune import tune_batch

HELP = "find the largest batch of a training script that fits, by short jobs on this machine"
EXAMPLE = "dlc tune-batch --hp-name batch-size --memory 4g pytorch-2.13-training-cpu-py311 train.py --batch-size 64"
# ID and SCRIPT may have options between them.
INTERMIXED = True
BEHIND = BEHIND_SCRIPT
COMPILERS = ("inductor", "xla")
# Without --most no batch is tried that is more than so many times the job's own.
TIMES = 1024
# Bounds of --trial-seconds.
SECONDS = 10, 1_000_000


def ends_own_words(found: Sequence[str]) -> bool:
    """Tell whether the last of these words is the script."""
    return len(found) == 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ID, SCRIPT, the hyperparameter that is tried, the bounds of the search, and the job as `dlc run` has it."""
    parser.usage = "%(prog)s --hp-name KEY [OPTIONS] ID SCRIPT [ARGUMENT...]"
    parser.add_argument("image", metavar="ID", help="an image identifier, or a Docker reference")
    parser.add_argument("script", metavar="SCRIPT", help="the entry point, a file")
    add = parser.add_argument
    add(
        "--hp-name",
        required=True,
        metavar="KEY",
        help="the batch size: an argument behind SCRIPT, or a hyperparameter of --hp",
    )
    add("--lr-name", default="", metavar="KEY", help="the learning rate, found in the same way")
    add("--compiler", choices=COMPILERS, default="", help="try the job eager and compiled, side by side")
    add(
        "--margin", type=_parse_share, default=0.1, metavar="SHARE", help="of the memory that stays free (default: 0.1)"
    )
    add("--most", type=parse_count, metavar="N", help=f"largest batch to try (default: {TIMES} times the job's)")
    add("--steps", type=parse_count, default=5, metavar="N", help="that a trial measures (default: 5)")
    add("--trial-seconds", type=_parse_seconds, default=900.0, metavar="S", help="bound of one trial (default: 900)")
    add_flags(parser)
    add("--output", metavar="DIR", help=f"where the trials' folders go (default: {RESULTS}/tune-TIME)")
    add_json(parser)


def _parse_share(text: str) -> float:
    return parse_number(text, lambda value: 0 <= value < 1, "a share from 0 to below 1")


def _parse_seconds(text: str) -> float:
    least, most = SECONDS
    return parse_number(text, lambda value: least <= value <= most, f"{least} to {most} seconds")


def run(args: argparse.Namespace) -> int:
    """Try, and print what was found. Raises TuneError if no batch fits or nothing can be measured."""
    request = _make_request(args)
    found = tune_batch(request, find_engine_for_job(), claims_folder(), _say_line, show_step)
    print_json(output.as_dict(request, found)) if args.json else print_text(output.as_text(request, found))
    return 0


def _make_request(args: argparse.Namespace) -> Request:
    job = make_local_job(args, "tune-batch", prefix="tune-").job
    check_job(job, args.compiler)
    batch = read_batch(job, args.hp_name)
    most = args.most or TIMES * batch
    if most < batch:
        raise UsageError(f"--most {most}: expected no less than the job's own batch, {batch}", "dlc tune-batch --help")
    return Request(
        job=job,
        batch_name=args.hp_name,
        batch=batch,
        rate=read_number(job, args.lr_name, "--lr-name") if args.lr_name else None,
        rate_name=args.lr_name,
        modes=list_modes(args.compiler),
        margin=args.margin,
        most=most,
        steps=args.steps,
        seconds=args.trial_seconds,
    )


def _say_line(text: str) -> None:
    print(f"dlc: {text}", file=sys.stderr, flush=True)
