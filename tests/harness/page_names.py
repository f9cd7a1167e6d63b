"""The names that pages and docstrings put into backticks, and what the source has by such names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from dlc.core.checkout import find_root

ROOT = find_root()
SOURCES = ROOT / "src"
FOLDERS = ("src", "tests", "docs", "docker", "buildspec", "benchmarks", "scripts", "examples", ".github")
# A path on a page begins at the root, or in one of these
STARTS = (
    *("src/dlc", "src/entrypoint/launch", "src/entrypoint/launch/plan", "src/entrypoint", "src/dlc_runtime", "src"),
    *("tests", "docker/scripts", "docs"),
)
PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*/?")
CODE = (".py", ".sh", ".yml", ".toml", ".Dockerfile", "")
DOCSTRING = '(?s:""".*?""")'


@cache
def all_paths() -> frozenset[str]:
    """Return every file and folder of the checkout, from its root; no environment, no output."""
    below = (path for name in FOLDERS for path in (ROOT / name).rglob("*"))
    found = [*ROOT.iterdir(), *(ROOT / name for name in FOLDERS), *below]
    return frozenset(str(path.relative_to(ROOT)) for path in found if "__pycache__" not in path.parts)


@cache
def file_names() -> frozenset[str]:
    """Return the last part of every path."""
    return frozenset(path.rpartition("/")[2] for path in all_paths())


def has_path(written: str) -> bool:
    """Tell whether a path is there, from the root or from a folder of STARTS; words in capitals stand for any name."""
    wanted = re.sub(r"\b(NAME|VERB|PACKAGE|ROOM)\b|(?<=DLC1)xx", "*", written.rstrip("/"))
    if "*" in wanted:
        return any(any((ROOT / start).glob(wanted)) for start in ("", *STARTS))
    return any(f"{start}{wanted}" in all_paths() for start in ("", *(f"{start}/" for start in STARTS)))


@cache
def code_words() -> frozenset[str]:
    """Return every word of the code, also of recipes, scripts and the harness of the tests."""
    code = (path for path in all_paths() if Path(path).suffix in CODE and not path.startswith(("docs/", "tests/unit")))
    files = (ROOT / path for path in code)
    return frozenset(word for file in files for word in words_of(file))


def words_of(file: Path) -> set[str]:
    """Return the words of a text file; none of other bytes, and none if there is no such file."""
    return set(re.findall(r"\w+", file.read_text(errors="ignore"))) if file.is_file() else set()


def defines(dotted: str) -> bool:
    """Tell whether a name by its package, such as `dlc.site.pages.FORM`, is there."""
    *modules, name = dotted.split(".")
    package = (SOURCES / "entrypoint" if modules[0] == "launch" else SOURCES).joinpath(*modules)
    if package.with_suffix(".py").is_file():
        return name in words_of(package.with_suffix(".py"))
    below = f"{package.relative_to(ROOT)}/{name}"
    return has_path(below) or has_path(f"{below}.py") or name in words_of(package / "__init__.py")


def shows(member: str) -> bool:
    """Tell whether `module.name` is there; also if no module of src is called so, since the name is not ours then."""
    module, name = member.split(".")
    files = [*SOURCES.rglob(f"{module}.py")]
    return not files or any(name in words_of(file) for file in files)


def examples(page: str) -> list[str]:
    """Return the fenced parts of a page: commands and pictures."""
    return re.findall(r"^```\w*\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)


def spans(page: str) -> Iterator[str]:
    """Yield what stands in backticks on a page, outside of its examples."""
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE))


def source_spans(text: str) -> Iterator[str]:
    """Yield what stands in backticks in a source's docstrings and comments."""
    for told in re.findall(rf"{DOCSTRING}|#.*`.*", text):
        yield from spans(told)


def source_words(text: str) -> set[str]:
    """Return the words of a source without its docstrings and comments."""
    return set(re.findall(r"\w+", re.sub(rf"{DOCSTRING}|#.*", "", text)))
