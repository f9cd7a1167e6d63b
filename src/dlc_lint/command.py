"""The command: arguments, the scripts one by one, and what is printed; imports libcst only when it runs."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from dlc_lint.findings import FRAMEWORKS, BadScriptError, Finding, Place, Result

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

FOUND = 1
BAD_INPUT = 51
NO_LIBCST = 21
COMPILERS = ("inductor", "xla")
TOOL = "TorchFix"
# It takes two for a script.
SECONDS = 120
LINE = re.compile(r"(?P<path>.+?):(?P<line>\d+):(?P<column>\d+): (?P<code>TOR\d+) (?:\[\*\] )?(?P<message>.*)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add SCRIPT, --framework, --compiler, --json, --sarif, --fix, --no-torchfix."""
    parser.add_argument("scripts", nargs="+", metavar="SCRIPT", help="a Python file")
    parser.add_argument(
        "--framework", choices=tuple(FRAMEWORKS.values()), default="", help="only the rules of one framework"
    )
    parser.add_argument(
        "--compiler", choices=COMPILERS, default="", help="what the job will use (default: what the script itself says)"
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="print JSON")
    shown.add_argument("--sarif", action="store_true", help="print SARIF 2.1.0")
    parser.add_argument("--fix", action="store_true", help="change the scripts where that is safe")
    parser.add_argument(
        "--no-torchfix", action="store_true", help="without TorchFix, which is asked where it is installed"
    )


def run(args: argparse.Namespace) -> Result:
    """Check every script, fix if asked, print the findings. Errors of scripts are in the result, not printed."""
    result = _check_all(args)
    # If no script could be read, the errors say all.
    if result.scripts or args.json or args.sarif:
        print(_rendered(args, result))
    sys.stdout.flush()
    return result


def _rendered(args: argparse.Namespace, result: Result) -> str:
    from dlc_lint import output

    if args.json:
        return output.render_json(result)
    return output.render_sarif(result) if args.sarif else output.render_text(result)


def _check_all(args: argparse.Namespace) -> Result:
    findings: list[Finding] = []
    fixed: list[Finding] = []
    errors: list[BadScriptError] = []
    for path in dict.fromkeys(args.scripts):
        try:
            found, done = _check_one(path, args)
        except BadScriptError as error:
            errors.append(error)
        else:
            findings += found
            fixed += done
    read = [path for path in dict.fromkeys(args.scripts) if path not in {error.path for error in errors}]
    more, notes = _of_torchfix(args, read)
    both = sorted(findings + more, key=lambda one: (read.index(one.path), one.place, one.code))
    return Result(len(read), tuple(both), tuple(errors), tuple(fixed), tuple(notes))


def _check_one(path: str, args: argparse.Namespace) -> tuple[list[Finding], list[Finding]]:
    from dlc_lint.check import check, fix, write
    from dlc_lint.script.parsing import read

    source = read(path)
    if not args.fix:
        return check(source, path, args.framework, args.compiler), []
    result = fix(source, path, args.framework, args.compiler)
    if result.text != source:
        write(path, result.text)
    return list(result.left), list(result.done)


def _of_torchfix(args: argparse.Namespace, paths: list[str]) -> tuple[list[Finding], list[str]]:
    from dlc_lint.script import parsing

    if args.no_torchfix or args.framework not in ("", "pytorch") or not paths or not has_torchfix():
        return [], []
    findings, note = run_torchfix(paths)
    left: list[Finding] = []
    for path in paths:
        directives = parsing.read_noqa(parsing.comments(parsing.read(path)))
        left += parsing.silence([one for one in findings if one.path == path], directives)
    return left, [note] if note else []


def exit_code(result: Result) -> int:
    """Return 0 if nothing was found, 1 for findings, 51 if a script could not be read."""
    if result.errors:
        return BAD_INPUT
    return FOUND if result.findings else 0


def has_torchfix() -> bool:
    """Return whether this Python has TorchFix."""
    return importlib.util.find_spec("torchfix") is not None


def run_torchfix(paths: Sequence[str]) -> tuple[list[Finding], str]:
    """Return TorchFix's findings, and why there are none if it failed."""
    command = [sys.executable, "-m", "torchfix", "--jobs", "1", "--", *paths]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return [], f"{TOOL} did not end within {SECONDS} s"
    findings = [finding for finding in map(_finding, done.stdout.splitlines()) if finding is not None]
    if done.returncode not in (0, 1) or (done.returncode and not findings):
        return [], f"{TOOL} failed: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}"
    return findings, ""


def _finding(line: str) -> Finding | None:
    match = LINE.fullmatch(line)
    if match is None:
        return None
    at = int(match["line"]), int(match["column"]) - 1
    return Finding(match["path"], Place(*at, *at), match["code"], match["message"], (), TOOL)
