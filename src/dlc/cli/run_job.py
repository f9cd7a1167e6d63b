"""`dlc run`: runs a training job on this machine, a container for each of its hosts."""

from __future__ import annotations

import argparse
import os
import re
import secrets
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from dlc.buildspec import selection
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.platforms import name_foreign
from dlc.buildspec.project import read_project as read_project_file
from dlc.buildspec.project import require_script
from dlc.cli.arguments import add_json, parse_count, print_json, show_step
from dlc.cli.job_files import is_job_file, read_file_options, save_job
from dlc.cli.lint import lint_note
from dlc.cli.own_words import MARK, names_script
from dlc.core.checkout import find_workspace, read_project, read_workspace
from dlc.core.environment import cache_folder, user_path
from dlc.core.errors import EngineError, UsageError
from dlc.core.platforms import ANY_PLATFORM
from dlc.engine.connection import Engine, absence_error, advise_start, connect, find_engine
from dlc.engine.questions import ASK_SECONDS
from dlc.jobs.run.claims import remove_job
from dlc.jobs.run.containers import explain_as_dict, explain_as_text
from dlc.jobs.run.detach import start_in_background
from dlc.jobs.run.job import (
    HOST_VARIABLE,
    MOST_HOSTS,
    MOST_PLACE_HOSTS,
    NAME,
    SHARED_MEMORY,
    STOP_SECONDS,
    Job,
    Options,
    make_job,
)
from dlc.jobs.run.job_folder import RESULTS
from dlc.jobs.run.known_jobs import LOG, require_free_name
from dlc.jobs.run.run import run_job
from dlc.jobs.run.watch import explain_watch
from dlc.jobs.run.words import read_words
from dlc.jobs.strategies import STRATEGIES

HELP = "run a training job on this machine, a container for each host"
EXAMPLE = "dlc run --hosts 2 --distributed torchrun pytorch-2.13-training-cpu-py311 train.py --lr 0.1"
# IMAGE and SCRIPT may have options between them.
INTERMIXED = True
BEHIND = (
    "what is for the script stands behind its name; without a name, in a project, behind a --, as in dlc run --"
    " --lr 0.1; in a job's file below `arguments`"
)

# The folder of claims in the cache.
CLAIMS = "jobs"
REMOVE_REMEDY = "the first line of its run has the name; docker ps --all --filter label=org.dlc.job shows containers"


def ends_own_words(found: Sequence[str]) -> bool:
    """Tell whether the last of these words is the script: in a project the only one. A job's file has its own."""
    return not is_job_file(found[0]) and (len(found) == 2 or names_script(found[0]))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ID, SCRIPT, what the job is, what each host gets, --explain, --remove."""
    parser.usage = (
        "%(prog)s [OPTIONS] ID SCRIPT [ARGUMENT...]\n"
        "       %(prog)s [OPTIONS] FILE\n"
        "       %(prog)s [OPTIONS] [SCRIPT [ARGUMENT...]]   in a project"
    )
    parser.add_argument("image", nargs="?", metavar="ID", help="an image identifier or reference, or a job's file")
    parser.add_argument(
        "script", nargs="?", metavar="SCRIPT", help="the entry point, a file; the words behind it are its own arguments"
    )
    add_job(parser)
    add_limits(parser)
    parser.add_argument("--output", metavar="DIR", help=f"where the results go (default: {RESULTS}/JOB)")
    parser.add_argument("--name", default="", metavar="JOB", help="the job's name (default: the time and six digits)")
    parser.add_argument(
        "--detach", action="store_true", help="run the job in the background, print its name; dlc logs shows its lines"
    )
    parser.add_argument(
        "--watch", action="store_true", help="show the job in tensorboard, on a port that is printed, until it ends"
    )
    parser.add_argument(
        "--explain", action="store_true", help="show the containers and their config files; start nothing"
    )
    parser.add_argument("--save", metavar="FILE", help="write the job to FILE, for dlc run FILE; start nothing")
    parser.add_argument("--remove", metavar="JOB", help="remove the containers and the network that a job left")
    # --json is for --explain and --detach.
    add_json(parser)


def add_job(parser: argparse.ArgumentParser) -> None:
    """Add what the job is."""
    parser.add_argument("--hosts", type=parse_count, default=1, metavar="N", help="hosts of the job, or of each group")
    parser.add_argument(
        "--distributed", default="", metavar="STRATEGY",
        help=f"train one model together: {', '.join(STRATEGIES)}; without it each host runs SCRIPT for itself",
    )  # fmt: skip
    _add_each(parser, "--group", "NAME=N", "an instance group of N hosts")
    _add_each(parser, "--program", "GROUP=FILE", "the entry point of one group")
    parser.add_argument("--source", default="", metavar="DIR", help="a folder of code; SCRIPT and FILE are paths in it")
    _add_each(parser, "--hp", "KEY=VALUE", "a hyperparameter")
    _add_each(parser, "--channel", "NAME=DIR", "an input channel, which the job cannot write to")
    parser.add_argument(
        "--checkpoints",
        default="",
        metavar="DIR",
        help="/opt/ml/checkpoints of all hosts; the next job may go on from it",
    )
    _add_each(parser, "--env", "NAME[=VALUE]", "a variable; without a value this shell's")


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Add what each host gets."""
    _add_each(parser, "--cpus", "[GROUP=]N", "CPUs of a host, such as 0.5; 0 is no limit")
    _add_each(parser, "--memory", "[GROUP=]SIZE", "memory of a host, such as 512m or 4g; 0 is no limit")
    _add_each(parser, "--gpus", "[GROUP=]GPUS", "GPUs of a host: all, a number, or device=0,1")
    _add_each(parser, "--instance-type", "[GROUP=]TYPE", "what the job is told that its hosts are (default: local)")
    parser.add_argument("--shm-size", default=SHARED_MEMORY, metavar="SIZE", help=f"(default: {SHARED_MEMORY})")
    parser.add_argument("--user", default="", metavar="USER", help="who runs in the containers; as for `docker run`")
    parser.add_argument(
        "--grace", type=parse_count, default=STOP_SECONDS, metavar="SECONDS",
        help=f"from a stop to SIGKILL (default: {STOP_SECONDS})",
    )  # fmt: skip


def _add_each(parser: argparse.ArgumentParser, option: str, form: str, meaning: str) -> None:
    parser.add_argument(option, action="append", default=[], metavar=form, help=f"{meaning}; may be repeated")


def run(args: argparse.Namespace) -> int:
    """Run the job; return its exit code."""
    if args.remove:
        return _remove_job(args.remove)
    take_from_project(args)
    if not args.image or not (args.script or is_job_file(args.image)):
        if args.image and names_script(args.image):
            raise _order_error("run", args.image, (args.arguments or [""])[0])
        raise UsageError(
            "dlc run: expected an image and a script, or the file of a job",
            "dlc run ID SCRIPT; `dlc init` makes a project, which names both",
        )
    if args.json and not (args.explain or args.detach):
        raise UsageError(
            "dlc run --json: expected --explain too, because a job prints its own lines", "add --explain, or --detach"
        )
    job = make_job_of_words(args)
    if args.save:
        return save_job(job, read_options(args), args.name, user_path(args.save))
    if args.explain:
        return _explain_job(job, args)
    if args.detach:
        return _start_in_background(job, args)
    for line in lint_note(job):
        print(f"dlc: {line}", file=sys.stderr)
    return start_job(job, is_named=bool(args.name) or is_job_file(args.image), watch=args.watch)


def _explain_job(job: Job, args: argparse.Namespace) -> int:
    watch = explain_watch(job) if args.watch else ""
    if args.json:
        print_json({**explain_as_dict(job), **({"watch": watch} if watch else {})})
    else:
        print("\n".join([explain_as_text(job), *(["", "tensorboard", f"  {watch}"] if watch else [])]))
    return 0


def take_from_project(args: argparse.Namespace) -> None:
    """Let the project's image, or its image and script, stand for words that are left out. One word is the script."""
    # A job's file names its image itself.
    if (args.image and args.script) or is_job_file(args.image) or not (folder := find_workspace().project):
        return
    own = read_project_file(read_project(folder))
    if own and (not args.image or names_script(args.image)):
        # Of a source folder the script is a path in it.
        own_script = own.file.script if args.source else os.path.relpath(folder / own.file.script)
        if not args.image:
            require_script(own, (user_path(args.source) if args.source else folder) / own.file.script)
        args.image, args.script = own.id, args.image or own_script


def _start_in_background(job: Job, args: argparse.Namespace) -> int:
    """Start the same command in the background; print the job's name if it runs."""
    # An engine that has to be started says so here.
    engine = find_engine_for_job()
    if args.name:
        require_free_name(cache_folder() / CLAIMS, job.id, engine)
    words = [word for word in args.typed if word not in ("--detach", "--json")]
    # Of an option that is given twice the last counts, and these say no more than what was typed.
    command = ("run", "--name", job.id, "--output", str(job.folder), *words, MARK, *(args.arguments or ()))
    with show_step(job.id, "starts"):
        code = start_in_background(command, job, cache_folder() / CLAIMS)
    if code:
        return code
    if args.json:
        print_json({"job": job.id, "folder": str(job.folder), "log": str(job.folder / LOG)})
    else:
        print(job.id)
        print(f"dlc: its lines: dlc logs {job.id} -f; its end: dlc stop {job.id}", file=sys.stderr)
    return 0


def make_job_of_words(args: argparse.Namespace, verb: str = "run", prefix: str = "") -> Job:
    """Make the job of IMAGE, SCRIPT, the words of `add_job` and `add_limits`, and --output."""
    image, name, options = args.image, getattr(args, "name", ""), None
    if verb == "run" and is_job_file(image):
        file, options = read_file_options(args, _default_words())
        image, name = file.spec.image, name or file.spec.name
    elif names_script(args.image) and not Path(args.script).is_file():
        raise _order_error(verb, args.image, args.script)
    if args.misplaced:
        print(f"dlc: {args.misplaced}", file=sys.stderr)
    identifier = name or f"{prefix}{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    if not re.fullmatch(NAME, identifier):
        raise UsageError(f"--name {identifier}: expected at most 63 letters, digits, _ . and -", f"dlc {verb} --help")
    ref, variant = selection.find_image(image, load_variants(read_workspace(), platform=ANY_PLATFORM))
    folder = user_path(args.output).absolute() if args.output else Path.cwd() / RESULTS / identifier
    try:
        job = make_job(
            options or read_options(args),
            os.environ,
            image=ref,
            id=identifier,
            folder=folder,
            token=secrets.token_hex(16),
            # A file is for places too.
            most_hosts=MOST_PLACE_HOSTS if getattr(args, "save", None) else MOST_HOSTS,
        )
        if named := [key for key in (*job.environment, *job.secrets) if HOST_VARIABLE.fullmatch(key)]:
            raise UsageError(f"--env {named[0]}: expected hosts that dlc names, found {named[0]}")
        own = variant.settings.user if variant else None
        # The folders of a job are made for its user.
        return replace(job, platform=name_foreign(variant), user=job.user or (own.name if own else ""))
    except UsageError as error:
        raise UsageError(error.message, f"dlc {verb} --help") from None


def _order_error(verb: str, script: str, behind: str) -> UsageError:
    image = "ID" if not behind or behind.startswith("-") else behind
    return UsageError(
        f"dlc {verb}: expected ID SCRIPT, found a script first: {script}",
        f"dlc {verb} {shlex.join([image, script])} ...",
    )


def _default_words() -> argparse.Namespace:
    """Return what the options of a job are if none is typed."""
    parser = argparse.ArgumentParser()
    add_job(parser)
    add_limits(parser)
    return parser.parse_args([])


def start_job(job: Job, *, is_named: bool = False, watch: bool = False) -> int:
    """Start the job; return its exit code. A name that a user gives may be another job's."""
    engine, claims = find_engine_for_job(), cache_folder() / CLAIMS
    if is_named:
        require_free_name(claims, job.id, engine)
    return run_job(job, engine, claims, watch=watch, show=show_step)


def find_engine_for_job() -> Engine:
    """Return an engine that answers.

    `connect` would ask for buildx besides, which nothing here needs, and start one.
    """
    return find_engine(ASK_SECONDS) or connect()


def find_running_engine() -> Engine:
    """Return the engine that answers, for what only looks after jobs: none is started, and buildx is not needed.

    Raises EngineError if none answers.
    """
    if engine := find_engine(ASK_SECONDS):
        return engine
    raise EngineError(absence_error(), advise_start())


def read_options(args: argparse.Namespace) -> Options:
    """Read the words of `add_job` and `add_limits`. Raises UsageError."""
    return read_words(
        args.script,
        hosts=args.hosts,
        groups=args.group,
        programs=args.program,
        distributed=args.distributed,
        source=args.source,
        hyperparameters=args.hp,
        channels=args.channel,
        checkpoints=args.checkpoints,
        environment=args.env,
        cpus=args.cpus,
        memory=args.memory,
        gpus=args.gpus,
        instance_types=args.instance_type,
        shared_memory=args.shm_size,
        user=args.user,
        stop_seconds=args.grace,
        arguments=tuple(args.arguments or ()),
    )


def _remove_job(job_id: str) -> int:
    # The id becomes the name of a file that is removed.
    if not re.fullmatch(NAME, job_id):
        raise UsageError(
            f"--remove {job_id}: expected the name of a job, such as 20261120-093000-0a1b2c", REMOVE_REMEDY
        )
    removed = remove_job(cache_folder() / CLAIMS, job_id, find_running_engine())
    print("\n".join(f"removed {name}" for name in removed) or f"{job_id}: nothing to remove", file=sys.stderr)
    return 0
