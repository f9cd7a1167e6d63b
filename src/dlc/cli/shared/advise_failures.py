"""The part of `dlc advise` about a job of many hosts: how often it should save, and what failures cost it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from dlc.advice.cost_model import PART, Catalogue, Cluster, Machine, parse_cluster
from dlc.advice.decide import MIXED, Advice
from dlc.advice.failures import HOUR, Losses, Reliability, count_data_hosts, find_losses, losses_json, write_losses
from dlc.cli.shared.arguments import parse_count, parse_positive
from dlc.core.errors import UsageError

# Of a job whose saves and restarts nobody measured.
SAVE_SECONDS, RESTART_SECONDS = 60.0, 600.0


@dataclass(frozen=True)
class Failures:
    """What failures cost a job of many hosts, and its data hosts: for each training host, and all; None if unknown."""

    reliability: Reliability
    losses: Losses
    training: Machine | None
    data: Machine | None = None
    data_hosts: tuple[float, int] | None = None

    @property
    def price(self) -> float | None:
        """Return US dollars for an hour of all hosts; None if a price is unknown."""
        if self.training is None:
            return None
        count = self.data_hosts[1] if self.data_hosts else 0
        return Cluster(self.training, self.reliability.hosts, self.data if count else None, count).price


def add_failures(parser: argparse.ArgumentParser) -> None:
    """Add how many hosts the job has, how often a host fails, and what that costs."""
    add = parser.add_argument_group("a job of many hosts: how often it should save, and what is lost").add_argument
    add("--hosts", type=parse_count, metavar="N", help="training hosts of the job (default: those of --on)")
    add(
        "--mtbf", type=parse_positive, metavar="HOURS",
        help="mean time between failures of one host; dlc help scale has those of public clusters",
    )  # fmt: skip
    add(
        "--save-seconds", type=parse_positive, metavar="S",
        help=f"for so long a save keeps the training waiting (default: {SAVE_SECONDS:.0f})",
    )  # fmt: skip
    add(
        "--restart-seconds", type=parse_positive, metavar="S",
        help=f"from a failure until the training goes on (default: {RESTART_SECONDS:.0f})",
    )  # fmt: skip


def read_reliability(args: argparse.Namespace) -> Reliability | None:
    """Return what the words say of failures; None if they say nothing. Raises UsageError if a word is missing."""
    words = {"--hosts": args.hosts, "--save-seconds": args.save_seconds, "--restart-seconds": args.restart_seconds}
    if args.mtbf is None:
        for option, value in words.items():
            if value is not None:
                raise UsageError(
                    f"{option}: expected --mtbf HOURS too, the mean time between failures of one host",
                    "dlc help scale has those of public clusters: --mtbf 6335 is that of 2,048 hosts with H100",
                )
        return None
    hosts = args.hosts or (_count_named_hosts(args.on) if args.on else None)
    if hosts is None:
        raise UsageError("--mtbf: expected --hosts N too, or --on N*TYPE", "dlc advise --hosts 64 --mtbf 6335")
    save, restart = args.save_seconds or SAVE_SECONDS, args.restart_seconds or RESTART_SECONDS
    return Reliability(hosts, args.mtbf * HOUR, save, restart)


def _count_named_hosts(word: str) -> int | None:
    """Return the number in `64*p4d.24xlarge`; None if there is none."""
    count = PART.fullmatch(word.strip())
    return int(count["count"]) if count and count["count"] else None


def find_failures(
    args: argparse.Namespace, machines: Catalogue, reliability: Reliability, advice: Advice | None
) -> Failures:
    """Return what failures cost. Raises UsageError for a job that would hardly train, and for two numbers of hosts."""
    losses = find_losses(reliability)
    if not args.on:
        return Failures(reliability, losses, None)
    training = parse_cluster(machines, args.on, "--on").training
    chosen = advice.chosen if advice else None
    if not advice or not chosen or chosen.kind != MIXED or not chosen.result.cluster.data:
        return Failures(reliability, losses, chosen.result.cluster.training if chosen else training)
    data = chosen.result.cluster.data
    count = count_data_hosts(reliability.hosts, training, data, advice.job)
    return Failures(reliability, losses, training, data, count)


def name_one_host(word: str, hosts: int | None) -> str:
    """Return `64*p4d.24xlarge` without its number. Raises UsageError if --hosts says another one."""
    named = _count_named_hosts(word)
    if hosts and named and named != hosts:
        raise UsageError(f"--hosts {hosts}: expected the {named} hosts of --on {word}", "leave out one of them")
    return word.strip().lstrip("0123456789").lstrip(" *x") if named else word


def write_failures(args: argparse.Namespace, found: Failures) -> list[str]:
    """Write what failures cost, the data hosts of all training hosts, and what nobody has measured."""
    parts = [write_losses(found.reliability, found.losses, found.price)]
    if found.data and found.data_hosts:
        each, count = found.data_hosts
        parts.append(
            f"data hosts: {each:.2f} x {found.data.name} for each training host, {count} for all;"
            " a job with dlc's data service goes on if one of them fails, so their failures are not counted"
        )
    assumed = [
        f"  {meaning} {value:.0f} s ({option}: measured)"
        for option, given, meaning, value in (
            ("--save-seconds", args.save_seconds, "a save keeps the training waiting for", SAVE_SECONDS),
            ("--restart-seconds", args.restart_seconds, "from a failure until the training goes on it takes",
             RESTART_SECONDS),
        )
        if given is None
    ]  # fmt: skip
    lines = ["the losses assume", "  hosts fail one by one, at a constant rate, and a spare host is at hand", *assumed]
    return [*parts, "\n".join(lines)]


def failures_json(found: Failures) -> dict[str, object]:
    """Return it for programs."""
    each, count = found.data_hosts or (None, None)
    return {
        **losses_json(found.reliability, found.losses, found.price),
        "data": found.data.name if found.data else None, "data_hosts_per_training_host": each, "data_hosts": count,
    }  # fmt: skip
