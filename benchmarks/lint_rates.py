"""Counts what each rule of the linter finds in public scripts, and how many of the judged findings are false.

`python benchmarks/lint_rates.py NAME=CLONE...`: each CLONE is a git clone, NAME what the table calls it (the folder's
name where it is left out). Read is each Python file of PyTorch, TensorFlow or Keras that trains or defines a model
(`SCRIPT` below), outside of tests, of at most 300 kB; equal files count once. Each is read twice: as it says itself,
and as a job for XLA. Nothing of a script is run.

`--findings FILE` writes every finding as a line of JSON. A person judges some of them: a line of `--judged`
(benchmarks/lint_judged.tsv) has the code, the file's git blob, the line, right or false, and where it was read.
A judgement counts as long as the rule still makes the finding.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from dlc_lint import BadScriptError
from dlc_lint.rules import ALL
from dlc_lint.script.script import Options, Script

SCRIPT = re.compile(r"\.backward\(|GradientTape|\.fit\(|train_on_batch|Trainer\(|DataLoader\(|nn\.Module")
FRAMEWORK = re.compile(
    r"^\s*(import|from)\s+(torch|tensorflow|keras|tf_keras|transformers|lightning|pytorch_lightning)\b", re.M
)
TESTS = re.compile(r"(^|/)(tests?|testing)/|(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$")
MOST_BYTES = 300_000
JUDGED = Path(__file__).with_name("lint_judged.tsv")


class Found(NamedTuple):
    """One finding: `blob` is the script as git names it."""

    code: str
    blob: str
    line: int
    path: str
    compiler: str
    message: str


def git(clone: str, *words: str) -> str:
    """What git prints; bytes that are no UTF-8 are replaced."""
    argv = ["git", "-c", "core.quotepath=off", "-C", clone, *words]
    return subprocess.run(argv, capture_output=True, check=True).stdout.decode(errors="replace")


def scripts(clone: str, seen: set[str]) -> Iterator[tuple[str, str, str]]:
    """Blob, path and text of each training script that is not in `seen`."""
    for row in git(clone, "ls-tree", "-r", "-l", "HEAD").splitlines():
        facts, path = row.split("\t", 1)
        _, kind, blob, size = facts.split()
        if kind != "blob" or not path.endswith(".py") or TESTS.search(path) or blob in seen or int(size) > MOST_BYTES:
            continue
        seen.add(blob)
        text = git(clone, "cat-file", "blob", blob)
        if SCRIPT.search(text) and FRAMEWORK.search(text):
            yield blob, path, text


def findings(blob: str, path: str, text: str) -> Iterator[Found]:
    """What the rules find; for XLA only what they do not find without it."""
    script = Script(text, path, Options())
    said = set()
    for compiler in ("", "xla"):
        script.options = Options(compiler)
        script.answers.clear()
        for rule in ALL:
            for hit in rule.check(script):
                line = script.line(hit.node)
                if (rule.code, line) not in said:
                    said.add((rule.code, line))
                    yield Found(rule.code, blob[:12], line, path, compiler, hit.message)


def judgements(path: Path) -> dict[tuple[str, str, int], str]:
    """Code, blob and line -> right or false."""
    rows = [row.split("\t") for row in path.read_text().splitlines()[1:]] if path.exists() else []
    return {(code, blob, int(line)): verdict for code, blob, line, verdict, *_ in rows}


def table(found: Iterable[Found], judged: dict[tuple[str, str, int], str]) -> str:
    """Markdown: a row for each rule."""
    by_code: dict[str, list[Found]] = {rule.code: [] for rule in ALL}
    for one in found:
        by_code[one.code].append(one)
    rows = ["| code | findings | scripts | judged | false | rate |", "|---|---|---|---|---|---|"]
    for code, ones in sorted(by_code.items()):
        verdicts = Counter(judged.get((one.code, one.blob, one.line), "") for one in ones)
        total = verdicts["right"] + verdicts["false"]
        rate = f"{100 * verdicts['false'] / total:.0f} %" if total else "-"
        rows.append(
            f"| {code} | {len(ones)} | {len({one.blob for one in ones})} | {total} | {verdicts['false']} | {rate} |"
        )
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--findings", type=Path, help="a file for all findings, a line of JSON each")
    parser.add_argument("--judged", type=Path, default=JUDGED, help="default: lint_judged.tsv beside this file")
    parser.add_argument("clones", nargs="+", metavar="NAME=CLONE")
    arguments = parser.parse_args()
    seen: set[str] = set()
    found: list[Found] = []
    read, unreadable = 0, 0
    with (arguments.findings or Path("/dev/null")).open("w") as stream:
        for word in arguments.clones:
            name, _, clone = word.rpartition("=")
            for blob, path, text in scripts(clone, seen):
                read += 1
                try:
                    here = list(findings(blob, f"{name or Path(clone).name}/{path}", text))
                except BadScriptError:
                    unreadable += 1
                    continue
                found += here
                stream.writelines(json.dumps(one._asdict()) + "\n" for one in here)
                stream.flush()
    print(f"{read} scripts of {len(arguments.clones)} repositories, {unreadable} of them are no Python 3\n")
    print(table(found, judgements(arguments.judged)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
