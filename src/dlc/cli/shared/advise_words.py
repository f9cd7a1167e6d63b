"""The words that `dlc advise` and `dlc profile --on` share, the advice that they ask for, and how it is printed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from dlc.advice import render
from dlc.advice.cost_model import (
    DATA_HOSTS,
    EVERYWHERE,
    Catalogue,
    Cluster,
    Estimate,
    Machine,
    Workload,
    find_machine,
    parse_cluster,
)
from dlc.advice.decide import COST, SPEED, Advice, make_advice
from dlc.advice.obstacle import hold_against
from dlc.advice.profile_report import Profile
from dlc.advice.profile_text import summarize
from dlc.cli.shared.advise_failures import Failures, failures_json, write_failures
from dlc.cli.shared.arguments import parse_count, parse_positive, print_json, print_text, terminal_columns
from dlc.core.errors import UsageError


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the machines, and what is known of others."""
    add = parser.add_argument
    add(
        "--step-ms",
        type=parse_positive,
        metavar="MS",
        help="time of a step with the data ready, where no report says it",
    )
    add("--on", metavar="CLUSTER", help="the training hosts as they are, such as p4d.24xlarge or '2*p4d.24xlarge'")
    add(
        "--data-host", action="append", default=[], metavar="MACHINES",
        help="a glob of machines that may be data hosts (default: all without GPUs that have a price); may be repeated",
    )  # fmt: skip
    add(
        "--data-cpu-seconds",
        type=parse_positive,
        metavar="S",
        help="CPU seconds of a batch on a data host (default: the same)",
    )
    add(
        "--data-workers", type=parse_count, default=0, metavar="N",
        help="processes that prepare data on a data host (default: one for each vCPU)",
    )  # fmt: skip
    add(
        "--preprocess-on", choices=(EVERYWHERE, DATA_HOSTS),
        help="which hosts prepare data once there are data hosts (default: everywhere; of a torch report: data-hosts)",
    )  # fmt: skip
    add("--gpu-preprocess-ms", type=parse_positive, metavar="MS", help="what preprocessing on the GPU adds to a step")
    add("--goal", choices=(COST, SPEED), default=COST, help="what to prefer (default: cost)")
    add(
        "--price", action="append", default=[], metavar="TYPE=USD",
        help="your price of a machine for an hour; may be repeated",
    )  # fmt: skip


@dataclass(frozen=True)
class Found:
    """What is printed: the report if one was read, advice if there was enough for it, measured clusters, failures."""

    profile: Profile | None
    advice: Advice | None
    measured: tuple[Estimate, ...]
    failures: Failures | None = None


def advise_from_words(
    args: argparse.Namespace, machines: Catalogue, step: float, cpu: float, size: float, profile: Profile | None
) -> Advice:
    """Make the advice. Raises UsageError without --on, and for machines that the catalogue lacks."""
    if not args.on:
        raise UsageError(
            "expected --on CLUSTER: the machines that the job trains on", "dlc advise --on p4d.24xlarge ..."
        )
    now = parse_cluster(machines, args.on, "--on")
    if now.data:
        raise UsageError(
            f"--on: expected training hosts alone, found data hosts too: {args.on!r}", "--data-host names those"
        )
    _require_measured_there(args, now, profile)
    default = DATA_HOSTS if profile and profile.framework == "torch" else EVERYWHERE
    job = Workload(step, cpu, args.data_cpu_seconds or cpu, size, args.preprocess_on or default, args.data_workers)
    extra = args.gpu_preprocess_ms / 1000 if args.gpu_preprocess_ms else None
    modelled = make_advice(now, job, machines, parse_data_types(machines, args.data_host), args.goal, extra)
    return hold_against(profile, modelled) if profile else modelled


def _require_measured_there(args: argparse.Namespace, now: Cluster, profile: Profile | None) -> None:
    """Raise UsageError for a step that no accelerator made, and for a machine without one that is to preprocess."""
    gpu = now.training.gpu
    if now.training.gpus and profile and profile.gpu_use is None and not args.step_ms:
        raise UsageError(
            f"--on {args.on}: expected a step measured on an accelerator, found a report of hosts without one: "
            f"its {profile.step * 1000:.1f} ms say nothing of the step on the {gpu} of {now.training.name}",
            "give the time of a step there, with the data ready, as --step-ms MS",
        )
    if args.gpu_preprocess_ms and not now.training.gpus:
        raise UsageError(
            f"--gpu-preprocess-ms: expected training hosts with GPUs, found {now.training.name}", "leave it out"
        )


def parse_data_types(machines: Catalogue, globs: Sequence[str]) -> list[Machine]:
    """Return the machines that data hosts may be. Raises UsageError for a glob that matches none."""
    if not globs:
        return [machine for machine in machines.values() if not machine.gpus and machine.price is not None]
    found = []
    for pattern in globs:
        plain = pattern.removeprefix("ml.")
        matches = [machine for name, machine in machines.items() if fnmatchcase(name, plain)]
        found += matches or [find_machine(machines, plain, "--data-host")]
    return found


def parse_prices(given: Sequence[str]) -> dict[str, float]:
    """Parse TYPE=USD. Raises UsageError."""
    return {
        name.removeprefix("ml."): value for name, value in (split_pair("--price", text, "TYPE=USD") for text in given)
    }


def split_pair(option: str, text: str, form: str) -> tuple[str, float]:
    name, _, value = text.rpartition("=")
    try:
        return name, parse_positive(value)
    except argparse.ArgumentTypeError:
        raise UsageError(f"{option}: expected {form} with a number above 0, found {text!r}") from None


def print_advice(args: argparse.Namespace, found: Found) -> None:
    """Print it all, and write the picture."""
    rows = [choice.result for choice in found.advice.choices] if found.advice else []
    if args.svg:
        if not rows and not found.measured:
            raise UsageError(
                "--svg: expected steps to draw, found failures alone", "add --on, --step-ms, --cpu-seconds"
            )
        args.svg.write_text(render.draw_svg([*rows, *found.measured]))
    if args.json:
        value = render.advice_json(found.profile, found.advice, found.measured)
        print_json(value | ({"failures": failures_json(found.failures)} if found.failures else {}))
        return
    width = terminal_columns()
    parts = [summarize(found.profile)] if found.profile else []
    if found.advice:
        if found.failures:
            parts.append(f"of one of the {found.failures.reliability.hosts} training hosts:")
        parts += [render.write_verdict(found.advice), render.make_choices_table(found.advice, width)]
        parts.append(render.list_assumptions(found.advice))
    if found.measured:
        parts.append(render.make_measured_table(found.measured, width))
    if found.failures:
        parts += write_failures(args, found.failures)
    if rows or found.measured:
        parts.append(render.list_prices([*rows, *found.measured]))
    print_text("\n\n".join(parts), {"choice": "head", "cluster": "head", "advice": "good"})
