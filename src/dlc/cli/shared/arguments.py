"""Arguments, warnings and output that several verbs share."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from dlc.core.checkout import PROJECT
from dlc.core.environment import PLATFORM, user_path
from dlc.core.errors import UsageError
from dlc.core.platforms import PLATFORMS
from dlc.core.text import paint_lines, shows_colors, wrap_text

if TYPE_CHECKING:
    from dlc.buildspec.variant import Variant
    from dlc.core.checkout import Tree

LEAST_NUMBER, MOST_NUMBER = 1e-9, 1e12
# What a container runs if no command is named.
SHELL = ("bash",)


def add_globs(parser: argparse.ArgumentParser, *, at_least_one: bool = False, platform: str = PLATFORM) -> None:
    """Add the globs of images, any number, none for all unless `at_least_one` is true, and their --platform.

    `platform`: the one without that option, or ANY_PLATFORM.
    """
    parser.add_argument(
        # With a default argparse does not tell who lacks another argument that GLOB is required.
        "globs", nargs="*", default=[], metavar="GLOB",
        help="image identifiers, in quotes, such as 'pytorch-*-cpu-*'; none: the project's image"
        + ("" if at_least_one else ", or all images if this is no project"),
    )  # fmt: skip
    parser.add_argument(
        "--platform", choices=list(PLATFORMS), default=platform,
        help="platform of the images that globs select; a whole identifier selects any"
        f" (default: {platform or 'all platforms'})",
    )  # fmt: skip
    parser.set_defaults(verb_that_selects=parser.prog if at_least_one else "")


def fill_globs(args: argparse.Namespace, tree: Tree) -> None:
    """Let the project's image stand for globs that are left out.

    Raises UsageError if there is no project and the verb needs globs.
    """
    from dlc.buildspec.project import list_own_images

    args.globs = args.globs or list(list_own_images(tree))
    if not args.globs and args.verb_that_selects:
        raise UsageError(
            f"{args.verb_that_selects}: expected GLOB, or {PROJECT} in this folder or one above it, found neither",
            f"`{args.verb_that_selects} GLOB`, with images of `dlc list`; or `dlc init`, which makes a project",
        )


def add_set(parser: argparse.ArgumentParser) -> None:
    """Add --set, changes of settings on the command line."""
    parser.add_argument(
        "--set", action="append", default=[], dest="sets", metavar="PATH=VALUE",
        help="change a setting, such as base.image=debian:12; may be repeated",
    )  # fmt: skip


def add_json(parser: argparse._ActionsContainer) -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def parse_count(text: str) -> int:
    """Parse a whole number above 0, below a million."""
    if re.fullmatch(r"[1-9][0-9]{6,}", text):
        raise argparse.ArgumentTypeError(f"expected at most 999999, found {text[:40]}")
    if not re.fullmatch(r"[1-9][0-9]{0,5}", text):
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, found {text!r}")
    return int(text)


def add_back(parser: argparse.ArgumentParser) -> None:
    """Add --back."""
    parser.add_argument(
        "--back", action="store_true", help="set tags to this image although they mean one of a newer commit"
    )


def parse_path(text: str) -> Path:
    """Parse a path. An empty word, as of a variable that CI has not set, would mean the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("expected a path, found an empty word")
    return user_path(text)


def parse_number(text: str, is_right: Callable[[float], bool], expected: str) -> float:
    """Parse a finite number for which `is_right` is true. Raises ArgumentTypeError, which says what was `expected`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and is_right(value)):
        raise argparse.ArgumentTypeError(f"expected {expected}, found {text!r}")
    return value


def parse_positive(text: str) -> float:
    """Parse a number above 0. Numbers too small or too large to divide by are refused."""
    return parse_number(
        text,
        lambda value: LEAST_NUMBER <= value <= MOST_NUMBER,
        f"a number above 0, from {LEAST_NUMBER:g} to {MOST_NUMBER:g}",
    )


def warn_of_end(variants: Sequence[Variant]) -> list[str]:
    """Print a warning for each image whose end of patch is near or past; returns the warnings."""
    from dlc.buildspec import variant

    found = variant.list_support_warnings(variants, datetime.now(UTC).date())
    for warning in found:
        print(f"dlc: warning: {warning}", file=sys.stderr)
    return found


def warn_of_other_tool(tree: Tree) -> None:
    """Print a warning if this dlc is another one than the project pins."""
    from dlc.buildspec.project import INSTALL_TOOL
    from dlc.buildspec.tool_pin import read_named_tool
    from dlc.image_build.tool_wheel import explain_other_tool

    if (pin := read_named_tool(tree)) and (found := explain_other_tool(pin)):
        print(f"dlc: warning: {found}\n  remedy: {INSTALL_TOOL}", file=sys.stderr)


def terminal_columns() -> int | None:
    """Return the characters to a line of the terminal that stdout is; None without a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def terminal_options() -> tuple[str, ...]:
    """Return the client's options: input reaches the command, and a terminal if somebody types on one."""
    return ("--interactive", *(("--tty",) if sys.stdin.isatty() and sys.stdout.isatty() else ()))


def print_text(text: str, kinds: Mapping[str, str] = MappingProxyType({})) -> None:
    """Print a text, on a terminal in lines that fit it, and with the colours of `kinds` (`paint_lines`)."""
    columns = terminal_columns()
    is_colored = shows_colors(os.environ, is_terminal=sys.stdout.isatty())
    shown = paint_lines(text, kinds) if is_colored else text
    print(shown if columns is None else wrap_text(shown, columns))


def say_progress(line: str) -> None:
    """Say on stderr what is done, if it takes long."""
    print(f"  {line}", file=sys.stderr, flush=True)


@contextmanager
def show_work(name: str, what: str, *, is_announced: bool = True) -> Iterator[Callable[[str], None]]:
    """Show on stderr that the block works, and for how long. It is given a function that says what is done now.

    A terminal shows it while it runs; a pipe gets a line at the start if it is announced, one every half minute, and
    one at the end.
    """
    # It is imported by verbs that take long, not by those that only look.
    from dlc.image_build.progress_display import Screen, open_display

    with open_display(plain=False, stream=sys.stderr, environment=os.environ) as display:
        if is_announced and not isinstance(display, Screen):
            say_progress(f"{name}: {what}")
        with display.during(name, what) as say:
            yield say


def show_step(name: str, what: str) -> AbstractContextManager[Callable[[str], None]]:
    """Show on stderr that the block of a job's verb runs, and for how long, only if it takes long."""
    return show_work(name, what, is_announced=False)


def print_json(value: object) -> None:
    """Print one JSON document."""
    print(json.dumps(value, indent=2))


def ask_to_remove(command: str) -> None:
    """Ask the user. Raises UsageError for any answer but yes, and if nobody can be asked."""
    if not sys.stdin.isatty():
        raise UsageError(f"{command}: stdin is no terminal, so it cannot ask", "add --yes")
    print("remove all of this? [y/N] ", end="", flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was removed")
