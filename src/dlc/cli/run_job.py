"""`dlc run`: runs a training job on this machine, a container for each of its hosts."""

from __future__ import annotations

import argparse
import os
import re
import sys

from dlc.buildspec.project import read_project as read_project_file
from dlc.buildspec.project import require_script
from dlc.cli.shared.arguments import add_json, print_json, show_step
from dlc.cli.shared.job_specs import Images, place_job
from dlc.cli.shared.lint_note import lint_note
from dlc.cli.shared.local_jobs import LocalJob, make_local_job, order_error, read_job
from dlc.cli.shared.own_words import BEHIND_SCRIPT, MARK, ends_with_script, is_job_file, names_script
from dlc.core.atomic_files import replace_text
from dlc.core.checkout import find_workspace, read_project
from dlc.core.environment import user_path
from dlc.core.errors import DlcError, UsageError
from dlc.engine.connection import find_engine_for_job, find_running_engine
from dlc.job.code_files import RESULTS
from dlc.job.job_file import format_job
from dlc.job.values import NAME
from dlc.job.words import add_flags
from dlc.places.local.claims import claims_folder, remove_job
from dlc.places.local.containers import explain_as_dict
from dlc.places.local.detach import start_in_background
from dlc.places.local.job import Job
from dlc.places.local.known_jobs import LOG, require_free_name
from dlc.places.local.run import run_job
from dlc.places.local.watch import explain_watch
from dlc.places.place import LOCAL, load_place

HELP = "run a training job on this machine, a container for each host"
EXAMPLE = "dlc run --hosts 2 --distributed torchrun pytorch-2.13-training-cpu-py311 train.py --lr 0.1"
# IMAGE and SCRIPT may have options between them.
INTERMIXED = True
BEHIND = BEHIND_SCRIPT
ends_own_words = ends_with_script

REMOVE_REMEDY = "the first line of its run has the name; docker ps --all --filter label=org.dlc.job shows containers"


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
    add_flags(parser)
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


def run(args: argparse.Namespace) -> int:
    """Run the job; return its exit code."""
    if args.remove:
        return _remove_job(args.remove)
    take_from_project(args)
    _require_words(args)
    if args.save:
        return _save_job(args)
    local = make_local_job(args, "run", name=args.name, words=["watch=yes"] if args.watch else [])
    job = local.job
    if args.explain:
        return _explain_job(local, args)
    if args.detach:
        return _start_in_background(job, args)
    for line in lint_note(job):
        print(f"dlc: {line}", file=sys.stderr)
    is_named = bool(args.name) or is_job_file(args.image)
    return run_job(job, is_named=is_named, watch=local.options.watch == "yes", show=show_step)


def _require_words(args: argparse.Namespace) -> None:
    """Raise UsageError for words of a job that are missing."""
    if not args.image or not (args.script or is_job_file(args.image)):
        if args.image and names_script(args.image):
            raise order_error("run", args.image, (args.arguments or [""])[0])
        raise UsageError(
            "dlc run: expected an image and a script, or the file of a job",
            "dlc run ID SCRIPT; `dlc init` makes a project, which names both",
        )
    if args.json and not (args.explain or args.detach):
        raise UsageError(
            "dlc run --json: expected --explain too, because a job prints its own lines", "add --explain, or --detach"
        )


def _save_job(args: argparse.Namespace) -> int:
    """Write the file of a job that was typed, and say what it does not hold."""
    images = Images()
    spec = place_job(read_job(args, "run", images).spec, "run", args.name, args.output, images)
    spec = spec.model_copy(update={"name": args.name})
    path = user_path(args.save).absolute()
    if path.exists():
        raise DlcError(f"{path}: expected no file, found one", "name another file, or remove it")
    replace_text(path, format_job(spec, path.parent))
    for variable in filter(spec.environment.__contains__, spec.secrets):
        print(f"dlc: {variable} is not written: the shell that starts the job has to have it", file=sys.stderr)
    print(path)
    return 0


def _explain_job(local: LocalJob, args: argparse.Namespace) -> int:
    if args.json:
        watch = {"watch": explain_watch(local.job)} if local.options.watch == "yes" else {}
        print_json({**explain_as_dict(local.job), **watch})
    else:
        print(load_place(LOCAL).render_job(local.spec, local.options).text)
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
        require_free_name(claims_folder(), job.id, engine)
    words = [word for word in args.typed if word not in ("--detach", "--json")]
    # Of an option that is given twice the last counts, and these say no more than what was typed.
    command = ("run", "--name", job.id, "--output", str(job.folder), *words, MARK, *(args.arguments or ()))
    with show_step(job.id, "starts"):
        code = start_in_background(command, job, claims_folder())
    if code:
        return code
    if args.json:
        print_json({"job": job.id, "folder": str(job.folder), "log": str(job.folder / LOG)})
    else:
        print(job.id)
        print(f"dlc: its lines: dlc logs {job.id} -f; its end: dlc stop {job.id}", file=sys.stderr)
    return 0


def _remove_job(job_id: str) -> int:
    # The id becomes the name of a file that is removed.
    if not re.fullmatch(NAME, job_id):
        raise UsageError(
            f"--remove {job_id}: expected the name of a job, such as 20261120-093000-0a1b2c", REMOVE_REMEDY
        )
    removed = remove_job(claims_folder(), job_id, find_running_engine())
    print("\n".join(f"removed {name}" for name in removed) or f"{job_id}: nothing to remove", file=sys.stderr)
    return 0
