"""A name in backticks exists: files, functions, verbs and variables, on pages and in docstrings of src."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from dlc.cli import PLUMBING, VERBS
from harness.page_names import (
    PATH,
    ROOT,
    SOURCES,
    code_words,
    defines,
    examples,
    file_names,
    has_path,
    shows,
    source_spans,
    source_words,
    spans,
)

# Pages that name what is not ours, or what is gone, on purpose.
OTHERS = {
    "docs/clients.md": "names the tests of SageMaker's own repositories",
    "docs/measurements.md": "names what a measured commit had",
    "docs/decisions/0057-rooms-are-named-after-things.md": "names the rooms that it replaced",
}
# First parts of paths that no checkout has, or whole paths.
ELSEWHERE = {
    **dict.fromkeys(("model", "output", "checkpoints", "input", "code", "hosts", "job"), "a job's folder"),
    **dict.fromkeys(("dlc-jobs", "busy", "mine", "BUCKET", "FOLDER", "DLC_RUN_DIR"), "a job's folder, on its host"),
    **dict.fromkeys(("pages", "hlo", "trace", "torch_compile_debug", "..."), "in a report's or the compiler's folder"),
    **dict.fromkeys(
        ("own", "locks", ".devcontainer", "dlc.yml", "policy.yml", "*.py"), "of a user's project, or an export"
    ),
    **dict.fromkeys((".venv", "build/", "build/release", "build/userlands/SUITE.log"), "output, in no commit"),
    **dict.fromkeys(("actions", "PyPI", "tracker", "sm_drivers", "dlc"), "other projects' names, a protocol"),
    "ID": "targets of a build",
    "fx_graph_transformed.py": "written by torch",
}
# Words of other programs that our code does not need.
FOREIGN = {
    **dict.fromkeys(("CAP_SYS_PTRACE", "StrictModes", "ReadWriteMany"), "of Linux, sshd, Kubernetes"),
    **dict.fromkeys(("StopTrainingJob", "HuggingFace"), "of SageMaker, of the world"),
    **dict.fromkeys(("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "caching_precompile", "save_cache_artifacts"), "of torch"),
    **dict.fromkeys(("check_numerics", "process_mode"), "of TensorFlow"),
    **dict.fromkeys(("oldest_first", "read_lock", "LONGEST_BYTES", "DLC_ARGV_DIALEKT"), "of an example"),
    **dict.fromkeys(("UV_CONSTRAINT", "UV_OVERRIDE", "UV_EXCLUDE_NEWER"), "of uv"),
}


def pages() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each page about the house."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    named = {str(page.relative_to(ROOT)): page.read_text() for page in found}
    yield from ((name, text) for name, text in named.items() if name not in OTHERS)


def lost_names(find: Callable[[str], Iterator[str]]) -> list[str]:
    """Return what `find` yields of each page, with the page."""
    return [f"{name}: {lost}" for name, text in pages() for lost in find(text)]


def lost_paths(text: str) -> Iterator[str]:
    """Yield the paths in backticks, and those of Python files anywhere on a page, that are not there."""
    named = [span for span in spans(text) if PATH.fullmatch(span)]
    for path in (*named, *re.findall(r"(?<![\w./<*{-])[\w./*-]+\.py\b", text)):
        if is_ours(path) and not has_path(path) and path not in file_names():
            yield path


def is_ours(path: str) -> bool:
    """Tell whether a path, or the name of a script, is one of the checkout: no address, and not ELSEWHERE."""
    first = path.partition("/")[0]
    is_known = {first, path} & {*ELSEWHERE} or re.search(r"\w\.(com|io|example)$|^[\d/.]", first or "/")
    return not is_known and ("/" in path or path.endswith((".py", ".sh")))


def lost_words(text: str) -> Iterator[str]:
    """Yield the identifiers and the calls in backticks that no code has."""
    for span in spans(text):
        name = span.partition("(")[0]
        is_name = name.isidentifier() and (name != span or re.search(r"\w_\w|[a-z][A-Z]", name))
        if is_name and name not in code_words() and name not in FOREIGN:
            yield span


def lost_members(text: str) -> Iterator[str]:
    """Yield the names by package, and each `module.name` on a line of a picture, that no module has."""
    own = re.findall(r"`((?:dlc|dlc_\w+|launch)(?:\.\w+)+)\b(?!\.)", text)
    yield from (name for name in own if not name.endswith((".yml", ".pth")) and not defines(name))
    shown = [line for example in examples(text) for line in example.splitlines() if "->" in line]
    members = [name for line in shown for name in re.findall(r"(?<![\w./-])[a-z_]+\.[a-z_]+\b(?![./-])", line)]
    yield from (name for name in members if not name.endswith((".py", ".yml", ".json")) and not shows(name))


def lost_verbs(text: str) -> Iterator[str]:
    """Yield the verbs of dlc, in backticks and at the start of an example's line, that dlc does not have."""
    called = re.findall(r"`(?:\.venv/bin/)?dlc ([a-z][a-z-]*)(?![\w:-])", text)
    for example in examples(text):
        called += re.findall(r"^(?:\$ )?(?:\.venv/bin/)?dlc ([a-z][a-z-]*)(?![\w:-])", example, re.MULTILINE)
    yield from (verb for verb in called if verb not in {**VERBS, **PLUMBING, "help": ""})


def lost_variables(text: str) -> Iterator[str]:
    """Yield the variables DLC_* that no code knows."""
    for variable in re.findall(r"\bDLC_[A-Z0-9_]*[A-Z0-9]\b(?!_)", text):
        if variable not in code_words() and variable not in FOREIGN:
            yield variable


def test_every_path_on_a_page_exists() -> None:
    assert lost_names(lost_paths) == []


def test_every_identifier_on_a_page_exists() -> None:
    assert lost_names(lost_words) == []


def test_every_member_of_a_module_on_a_page_exists() -> None:
    assert lost_names(lost_members) == []


def test_every_verb_on_a_page_exists() -> None:
    assert lost_names(lost_verbs) == []


def test_every_variable_on_a_page_exists() -> None:
    assert lost_names(lost_variables) == []


def test_every_name_in_a_docstring_of_src_exists() -> None:
    sources = {file: file.read_text() for file in SOURCES.rglob("*.py")}
    known = set[str]().union(*map(source_words, sources.values()), file_names())
    lost = [
        f"{file.relative_to(ROOT)}: {span}" for file, text in sources.items() for span in lost_citations(text, known)
    ]
    assert lost == []


def lost_citations(text: str, known: Collection[str]) -> Iterator[str]:
    """Yield the identifiers, calls and modules in backticks, in docstrings and comments, that are not known."""
    for span in source_spans(text):
        name = span.partition("(")[0]
        if name.removesuffix(".py").isidentifier() and name not in known:
            yield span


def test_no_exception_is_stale() -> None:
    named = " ".join(text for _, text in pages())
    assert [page for page in OTHERS if not (ROOT / Path(page)).exists()] == []
    assert [word for word in (*ELSEWHERE, *FOREIGN) if word not in named] == []


def test_what_is_found() -> None:
    text = (
        "`src/a/`, `cli/build.py`, `gone.py`, `plan_gone`, `run()`, `a_gone(1)`, `dlc gone`, `DLC_GONE`, `dlc.gone.G`\n"
        "```\nsignals.arm -> rendezvous.gone\ndlc vanish -x\n```\n"
    )
    assert [*lost_paths(text)] == ["src/a/", "gone.py", "gone.py"]
    assert [*lost_words(text)] == ["plan_gone", "a_gone(1)", "DLC_GONE"]
    assert [*lost_verbs(text)] == ["gone", "vanish"]
    assert [*lost_variables(text)] == ["DLC_GONE"]
    assert [*lost_members(text)] == ["dlc.gone.G", "rendezvous.gone"]
    assert [*lost_citations('"""Fail as `plan_of_gone` does."""\n# See `here` and `gone.py`.\n', {"here"})] == [
        "plan_of_gone",
        "gone.py",
    ]
