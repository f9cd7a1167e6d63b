"""`dlc shell`: a shell in an image, with this folder mounted, and this machine's GPUs if there are some."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from dlc.buildspec import selection
from dlc.buildspec.matrix import load_variants
from dlc.cli.shared.arguments import SHELL, terminal_options
from dlc.cli.shared.own_words import require_command
from dlc.core.checkout import read_workspace
from dlc.core.platforms import ANY_PLATFORM
from dlc.engine.connection import find_engine_for_job
from dlc.engine.docker_client import Engine
from dlc.engine.questions import ask_engine
from dlc.job.job_spec import SHARED_MEMORY
from dlc.job.limits import quote_gpus, read_gpus
from dlc.places.local.containers import format_mount, option_if_set
from dlc.places.local.run import find_foreign_platform

HELP = "open a shell in an image: this folder is /work in it, and it has this machine's GPUs"
EXAMPLE = "dlc shell pytorch-2.13-training-cpu-py311 python -c 'import torch; print(torch.__version__)'"
BEHIND = "dlc shell [--gpus GPUS] [--user USER] ID [COMMAND...]"
# A place of its own: this folder's own path may be one of the image's.
WORK = "/work"
# Drivers make these.
GPU_DEVICES = ("nvidia[0-9]*", "dxg")


def ends_own_words(found: Sequence[str]) -> bool:
    """Tell that all behind the image is a command in place of the shell."""
    return len(found) == 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ID, --gpus, --user; what is behind ID is passed on."""
    parser.usage = "%(prog)s [-h] [--gpus GPUS] [--user USER] ID [COMMAND...]"
    parser.add_argument("image", metavar="ID", help="an image identifier, or a Docker reference")
    parser.add_argument("--gpus", type=_parse_gpus, metavar="GPUS", help="all, a number, or device=0,1; 0 is none")
    parser.add_argument(
        "--user", default="", metavar="USER",
        help="as for `docker run` (default: you, so that what you write here is yours)",
    )  # fmt: skip


def _parse_gpus(word: str) -> str:
    try:
        return read_gpus(word)
    except ValueError as expected:
        raise argparse.ArgumentTypeError(f"expected {expected}, found {word!r}") from None


def run(args: argparse.Namespace) -> int:
    """Become the docker client that runs the shell; its exit code is the shell's."""
    require_command("dlc shell ID", args.arguments or (), BEHIND, is_marked=args.is_marked)
    ref, _ = selection.find_image(args.image, load_variants(read_workspace(), platform=ANY_PLATFORM))
    engine = find_engine_for_job()
    platform = find_foreign_platform(ref, engine)
    gpus = find_gpus(engine, Path("/dev")) if args.gpus is None else args.gpus
    user = args.user or find_user(engine, os.getuid(), os.getgid())
    words = make_words(ref, Path.cwd(), gpus, user, args.arguments or SHELL, platform)
    engine.become_client(*words)


def make_words(
    ref: str, folder: Path, gpus: str, user: str, command: Sequence[str], platform: str = ""
) -> tuple[str, ...]:
    """Return what follows `docker`."""
    return (
        *("run", "--rm", "--pull", "never", *terminal_options(), "--shm-size", SHARED_MEMORY),
        *("--mount", format_mount(folder, WORK), "--workdir", WORK),
        *option_if_set("--gpus", quote_gpus(gpus)),
        *option_if_set("--platform", platform),
        # A user whom the image does not know has no home, and programs write to it.
        *(("--user", user, "--env", "HOME=/tmp") if user else ()),
        *(ref, *command),
    )


def find_gpus(engine: Engine, devices: Path) -> str:
    """Return `all` if this machine has GPUs and the engine gives them to containers."""
    found = any(True for pattern in GPU_DEVICES for _ in devices.glob(pattern))
    return "all" if found and engine.offers_gpus else ""


def find_user(engine: Engine, user: int, group: int) -> str:
    """Return who runs the shell, so that its files belong to the caller; empty for the image's own user.

    An engine without root shows its own user as root in the container.
    """
    if user == 0:
        return ""
    said = ask_engine(engine, "info", "--format", "{{json .SecurityOptions}}").stdout
    return "" if "rootless" in said else f"{user}:{group}"
