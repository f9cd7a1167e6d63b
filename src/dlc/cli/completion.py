"""`dlc completion`: scripts by which bash, zsh and fish complete verbs, options, images and jobs.

They ask dlc itself for every word, so they know the images and the jobs that there are when somebody types.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType

from dlc.cli.shared.help_pages import list_pages
from dlc.cli.shared.own_words import only_behind_mark, split_words
from dlc.cli.shared.own_words import only_behind_mark as ends_own_words  # noqa: F401 - the command line reads it
from dlc.core.errors import DlcError

HELP = "print what lets bash, zsh or fish complete the words of dlc"
EXAMPLE = "dlc completion bash"
# The table of verbs imports this file by name, so it is handed over: a verb's parser and module.
Parsers = Callable[[str], tuple[argparse.ArgumentParser, ModuleType]]
# A line that lets the shell complete files too.
FILES = ":files"

BASH = """\
_dlc() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        if [ "$line" = :files ]; then
            compopt -o default
        else
            COMPREPLY+=("${line%%$'\\t'*}")
        fi
    done < <("$1" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _dlc dlc
"""
ZSH = """\
#compdef dlc
_dlc() {
    local -a found
    local line word files
    while IFS= read -r line; do
        if [[ $line == :files ]]; then
            files=1
        else
            word=${${line%%$'\\t'*}//:/\\\\:}
            [[ $line == *$'\\t'* ]] && word+=":${line#*$'\\t'}"
            found+=("$word")
        fi
    done < <("$words[1]" completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)
    (( $#found )) && _describe dlc found
    [[ -n $files ]] && _files
}
if [[ $funcstack[1] == _dlc ]]; then
    _dlc "$@"
else
    compdef _dlc dlc
fi
"""
FISH = """\
function __dlc_complete
    set -l words (commandline -opc)[2..-1] (commandline -ct)
    for line in (dlc completion words -- $words 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c dlc -f -a '(__dlc_complete)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
WHERE = """where it goes:
  bash  eval "$(dlc completion bash)" in ~/.bashrc
  zsh   eval "$(dlc completion zsh)" in ~/.zshrc, after compinit
  fish  dlc completion fish > ~/.config/fish/completions/dlc.fish"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the shell; `words` is for the scripts."""
    parser.description = f"{HELP}\n\n{WHERE}"
    parser.add_argument("shell", choices=(*SCRIPTS, "words"), metavar="SHELL", help="bash, zsh or fish")


def run(args: argparse.Namespace) -> int:
    """Print the script, or what the last of the words after -- can become."""
    if args.shell in SCRIPTS:
        print(SCRIPTS[args.shell], end="")
        return 0
    typed = args.arguments or [""]
    try:
        found = complete(typed, args.verbs, args.make_parser)
    except DlcError:
        # A shell that completes shows no errors.
        return 0
    lines = [line for line in found if line == FILES or line.startswith(typed[-1])]
    print("\n".join(lines), end="\n" if lines else "")
    return 0


def complete(words: Sequence[str], verbs: Sequence[str], make_parser: Parsers) -> list[str]:
    """Return what the last word can become, for a command line of these words behind `dlc`: `WORD<tab>MEANING`."""
    if len(words) == 1:
        return [f"{verb}\t{make_parser(verb)[1].HELP}" for verb in verbs] + ["help\tshow a verb's options"]
    verb, *before, last = words
    if verb == "help":
        return [*verbs, "exit-codes", "pages", *list_pages()]
    if verb not in verbs:
        return []
    parser, module = make_parser(verb)
    is_last = getattr(module, "ends_own_words", only_behind_mark)
    if "--" in before or split_words(parser, [*before, last], is_last).passed_on is not None:
        return [FILES] if is_last is not only_behind_mark else []
    options = parser._option_string_actions
    if before and (action := options.get(before[-1])) and action.nargs != 0:
        return _complete_value(action)
    if last.startswith("-"):
        return [f"{name}\t{action.help}" for name, action in options.items()]
    place = _count_positional(before, options)
    action = _find_positional(parser, place)
    return _complete_value(action) if action else []


def _count_positional(words: Iterable[str], options: dict[str, argparse.Action]) -> int:
    """Count the words that are neither options nor their values."""
    count, is_value = 0, False
    for word in words:
        count += not is_value and not word.startswith("-")
        action = options.get(word)
        is_value = action is not None and action.nargs != 0
    return count


def _find_positional(parser: argparse.ArgumentParser, place: int) -> argparse.Action | None:
    """Return the argument that a word at this place is: the last one may take several."""
    actions = [action for action in parser._actions if not action.option_strings]
    if place < len(actions):
        return actions[place]
    return actions[-1] if actions and actions[-1].nargs in ("*", "+") else None


def _complete_value(action: argparse.Action) -> list[str]:
    """Return the words that an argument or an option takes; none for numbers and other free text."""
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    names = {*str(action.metavar or "").replace("=", " ").split()}
    return [word for metavars, list_words in WORDS if names & metavars for word in list_words()]


def list_images() -> list[str]:
    """Return the identifiers of all images."""
    from dlc.buildspec.matrix import load_variants
    from dlc.core.checkout import read_workspace
    from dlc.core.platforms import ANY_PLATFORM

    return [variant.id for variant in load_variants(read_workspace(), platform=ANY_PLATFORM)]


def list_jobs() -> list[str]:
    """Return the names of the jobs that run, and of those that have ended."""
    from dlc.job.code_files import RESULTS
    from dlc.places.local.claims import claims_folder
    from dlc.places.local.known_jobs import LOG, read_claims, read_ended

    claims = claims_folder()
    known = [job.id for job in (*read_claims(claims), *read_ended(claims))]
    return sorted({*known, *(path.parent.name for path in Path(RESULTS).glob(f"*/{LOG}"))})


def list_strategies() -> list[str]:
    """Return the ways to train one model on several hosts."""
    from dlc.job.strategies import STRATEGIES

    return list(STRATEGIES)


def list_places() -> list[str]:
    """Return where a job can be submitted."""
    from dlc.job.job_spec import PLACES

    return list(PLACES)


def list_files() -> list[str]:
    """Return the line by which the shell completes files."""
    return [FILES]


# Metavars, and what lists the words that stand for them.
WORDS = (
    ({"ID", "GLOB", "A", "B", "REF"}, list_images),
    ({"JOB"}, list_jobs),
    ({"STRATEGY"}, list_strategies),
    ({"PLACE"}, list_places),
    ({"FILE", "DIR", "SCRIPT", "REPORT", "WHEEL"}, list_files),
)
