"""Where dlc's own words end on a command line: what stands behind a script, or behind --, is not dlc's."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlc.core.errors import UsageError

# What a verb passes on has this before it, if nothing else tells where dlc's own words end.
MARK = "--"
JOB_FILES = (".yml", ".yaml", ".json")
BEHIND_SCRIPT = (
    "what is for the script stands behind its name; without a name, in a project, behind a --, as in dlc run --"
    " --lr 0.1; in a job's file below `arguments`"
)
# Tells of the words so far that are neither options nor their values whether dlc's own end with the last of them.
IsLast = Callable[[Sequence[str]], bool]
Options = dict[str, argparse.Action]


@dataclass(frozen=True)
class Words:
    """The words behind a verb: those that dlc reads itself, and those that it passes on."""

    own: list[str]
    # None: there is no --, and nothing behind the last word of dlc's own.
    passed_on: list[str] | None
    # The word behind which nothing is dlc's; empty if a -- says so.
    last: str = ""


def only_behind_mark(_found: Sequence[str]) -> bool:
    """Tell that dlc's own words end at a --, and nowhere before it."""
    return False


def ends_with_script(found: Sequence[str]) -> bool:
    """Tell whether the last of these words is the script: in a project the only one. A job's file has its own."""
    return not is_job_file(found[0]) and (len(found) == 2 or names_script(found[0]))


def is_job_file(word: str | None) -> bool:
    """Tell whether a word of the command line is the name of a job's file, not of an image."""
    return bool(word) and str(word).endswith(JOB_FILES)


def names_script(word: str) -> bool:
    """Tell whether a word is a script, not an image."""
    return word.endswith(".py") or Path(word).is_file()


def split_words(parser: argparse.ArgumentParser, words: Sequence[str], is_last: IsLast) -> Words:
    """Split behind the word that is the last of dlc's own, or at the first --, which neither side gets."""
    words, found = list(words), []
    is_value = False
    for place, word in enumerate(words):
        if word == MARK:
            return Words(words[:place], words[place + 1 :])
        if not is_value and not word.startswith("-"):
            found.append(word)
            if is_last(found):
                return _split_behind(words, place)
        is_value = not is_value and takes_value(word, parser._option_string_actions)
    return Words(words, None)


def _split_behind(words: list[str], place: int) -> Words:
    own, rest = words[: place + 1], words[place + 1 :]
    if rest[:1] == [MARK]:
        return Words(own, rest[1:])
    return Words(own, rest or None, own[-1])


def takes_value(word: str, options: Options) -> bool:
    """Tell whether a word is an option whose value is the next word."""
    action = options.get(word)
    return action is not None and action.nargs != 0


def require_command(verb: str, words: Sequence[str], remedy: str, *, is_marked: bool) -> None:
    """Raise UsageError if a command begins with an option: it is one of dlc's in the wrong place."""
    if words and words[0].startswith("-") and not is_marked:
        raise UsageError(f"{verb}: expected a command, found the option {words[0]}", remedy)


def describe_misplaced(parser: argparse.ArgumentParser, words: Words) -> str:
    """Return a line on the options of dlc that a script gets because they stand behind it; empty if it gets none."""
    options, rest = parser._option_string_actions, list(words.passed_on or ())
    found = [
        rest[place : place + 1 + takes_value(word, options)]
        for place, word in enumerate(rest)
        if word.partition("=")[0] in options
    ]
    if not (words.last and found):
        return ""
    goes = "goes" if len(found) == 1 else "go"
    said = shlex.join(word for option in found for word in option)
    return f"{said} {goes} to {words.last}; dlc's own options come before the script"
