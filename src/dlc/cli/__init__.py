"""The command line: one verb per module, imported only when it is used. May import every room."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

import dlc
from dlc.checked_yaml.problems import did_you_mean
from dlc.cli.shared.own_words import Words, describe_misplaced, split_words
from dlc.core.environment import OWN_VARIABLES, starts_no_engine
from dlc.core.errors import UsageError, list_exit_codes

# Verb -> module, which has HELP, EXAMPLE, add_arguments(parser) and run(args) -> exit code. INTERMIXED: options may
# stand between its arguments, of which some may be left out. ends_own_words(found) tells whether the verb's own words,
# which are args.typed, end with the last of these; args.arguments is what stands behind them, or behind a --. BEHIND
# says how words get there.
VERBS = {
    "init": "dlc.cli.init",
    "list": "dlc.cli.list",
    "show": "dlc.cli.show",
    "plan": "dlc.cli.plan",
    "lock": "dlc.cli.lock",
    "update": "dlc.cli.update",
    "build": "dlc.cli.build",
    "export": "dlc.cli.export",
    "ci": "dlc.cli.ci",
    "test": "dlc.cli.test",
    # dlc.cli.run is the function below, so the module has another name.
    "run": "dlc.cli.run_job",
    "submit": "dlc.cli.submit",
    "ps": "dlc.cli.ps",
    "logs": "dlc.cli.logs",
    "stop": "dlc.cli.stop",
    "exec": "dlc.cli.exec",
    "shell": "dlc.cli.shell",
    "clean": "dlc.cli.clean",
    "completion": "dlc.cli.completion",
    "engine": "dlc.cli.engine",
    "doctor": "dlc.cli.doctor",
    "size": "dlc.cli.size",
    "sbom": "dlc.cli.sbom",
    "diff": "dlc.cli.diff",
    "push": "dlc.cli.push",
    "verify": "dlc.cli.verify",
    "promote": "dlc.cli.promote",
    "prune": "dlc.cli.prune",
    "docs": "dlc.cli.docs",
    "site": "dlc.cli.site",
    "lint": "dlc.cli.lint",
    "scan": "dlc.cli.scan",
    "verify-reproducible": "dlc.cli.verify_reproducible",
    "advise": "dlc.cli.advise",
    "profile": "dlc.cli.profile",
    "tune-batch": "dlc.cli.tune_batch",
}
# Verbs that change nothing, and whose exit code tells of no fault that they found.
SHOWING = ("list", "show", "plan", "ci", "ps", "logs", "completion", "sbom", "advise", "profile", "help")
# For developers of dlc; not in the help.
PLUMBING = {"schema": "dlc.cli.schema", "packages": "dlc.cli.packages"}


# From this likeness on (0 to 1) one name of a variable may be meant for another.
LIKENESS = 0.8
# argparse begins its message so.
UNRECOGNIZED = "unrecognized arguments: "


class Parser(argparse.ArgumentParser):
    """argparse with errors of ours, and without abbreviated options."""

    # How words get to the script or the command that the verb starts; empty if it starts none.
    behind = ""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        """Raise UsageError; for an unknown option it names a similar option."""
        unknown = message.removeprefix(UNRECOGNIZED).split() if message.startswith(UNRECOGNIZED) else []
        names = [word.partition("=")[0].removeprefix("--") for word in unknown if word.startswith("--")]
        known = [option.removeprefix("--") for option in self._option_string_actions if option.startswith("--")]
        near = [hint.replace("'", "'--", 1) for name in names if (hint := did_you_mean(name, known))]
        behind = f"; {self.behind}" if unknown and self.behind else ""
        raise UsageError("; ".join([f"{self.prog}: {message}", *near]), f"{self.prog} --help{behind}")


def run(argv: Sequence[str]) -> int:
    """Run one verb. Raises DlcError; returns the exit code otherwise."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        return _print_help(argv[1:])
    if argv[0] == "--version":
        print(f"dlc {dlc.__version__}")
        return 0
    starts_no_engine(os.environ)
    for warning in list_misspelt(os.environ):
        print(f"dlc: warning: {warning}", file=sys.stderr)
    verb = argv[0]
    parser, module = make_parser(verb)
    parse = parser.parse_intermixed_args if getattr(module, "INTERMIXED", False) else parser.parse_args
    is_last = getattr(module, "ends_own_words", None)
    words = split_words(parser, argv[1:], is_last) if is_last else Words([*argv[1:]], None)
    args = parse(words.own)
    args.typed, args.arguments = words.own, words.passed_on
    args.is_marked, args.misplaced = not words.last, describe_misplaced(parser, words)
    # For the verb that completes the words of others.
    args.verbs, args.make_parser = tuple(VERBS), make_parser
    return int(module.run(args))


def only_shows(argv: Sequence[str]) -> bool:
    """Tell whether nothing is lost if whoever reads the output of this command leaves in the middle."""
    return not argv or argv[0] in SHOWING or argv[0].startswith("-")


def list_misspelt(environment: Mapping[str, str]) -> list[str]:
    """Return a warning for each variable that looks like one of dlc's, and is none of them or of the launcher's."""
    strange = [name for name in environment if name.startswith("DLC_") and name not in OWN_VARIABLES]
    near = {name: did_you_mean(name, OWN_VARIABLES, LIKENESS) for name in sorted(strange)}
    return [f"{name}: dlc reads no such variable; {hint}" for name, hint in near.items() if hint]


def _print_help(topics: Sequence[str]) -> int:
    """Print the text of `dlc help`, `dlc help VERB`, `dlc help PAGE`, `dlc help pages` or `dlc help exit-codes`."""
    if not topics:
        print(make_overview())
    elif topics[0] == "exit-codes":
        print("\n".join(f"{code:>4}  {meaning}" for code, meaning in list_exit_codes().items()))
    elif topics[0] in {**VERBS, **PLUMBING}:
        make_parser(topics[0])[0].print_help()
    else:
        _print_page(topics[0])
    return 0


def _print_page(name: str) -> None:
    """Print a page of the documentation, or the list of all. Raises UsageError for a name that none has."""
    from dlc.cli.shared.help_pages import describe_pages, list_pages, read_page

    if name == "pages":
        print(describe_pages())
        return
    text = read_page(name)
    if text is None:
        near = did_you_mean(name, [*VERBS, *list_pages()])
        wanted = f"{name}: expected a verb or a page of dlc help pages, found neither"
        raise UsageError(f"{wanted}; {near}" if near else wanted, "dlc help, dlc help pages")
    print(text, end="")


def make_parser(verb: str) -> tuple[Parser, ModuleType]:
    """Return the verb's parser and module. Raises UsageError for an unknown verb."""
    module = load_verb(verb)
    parser = Parser(
        prog=f"dlc {verb}",
        description=module.HELP,
        epilog=f"example: {module.EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.behind = getattr(module, "BEHIND", "")
    module.add_arguments(parser)
    return parser, module


def load_verb(verb: str) -> ModuleType:
    """Import the verb's module. Raises UsageError for an unknown verb."""
    name = {**VERBS, **PLUMBING}.get(verb)
    if name is None:
        near = did_you_mean(verb, VERBS)
        raise UsageError(f"{verb}: unknown verb; {near or 'known: ' + ', '.join(VERBS)}", "dlc --help")
    return import_module(name)


def make_overview() -> str:
    """Return what `dlc --help` prints: every verb with its line of help."""
    lines = ["usage: dlc VERB [options]", "", "Builds Deep Learning Container training images.", ""]
    width = max(len(verb) for verb in VERBS) + 2
    lines += [f"  {verb:<{width}}{load_verb(verb).HELP}" for verb in VERBS]
    lines += ["", "`dlc help VERB` shows its options and an example, `dlc help exit-codes` what an exit code means,",
              "`dlc help pages` the pages of the documentation, and `dlc help PAGE` one of them.",
              "Terminals get colours, links and lines that fit; NO_COLOR=1 turns colours and links off."]  # fmt: skip
    return "\n".join(lines)
