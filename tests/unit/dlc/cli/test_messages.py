"""What dlc prints can be followed with a wheel alone: no message names a file that only a checkout of dlc has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlc.__main__ import main
from dlc.cli import VERBS
from dlc.cli.shared.help_pages import list_pages
from dlc.core.checkout import find_root
from dlc.core.errors import UsageError

ROOT = find_root(Path(__file__))
PACKAGES = ("src/dlc", "src/dlc_lint")
FOLDERS = ("docs", "buildspec", "docker", "src", "scripts", "tests", "examples", "benchmarks")
# `docs/proof.md`, `make setup`, but no address of the web, and no path inside of an image.
OF_A_CHECKOUT = re.compile(rf"(?<![\w/.-])(?:(?:{'|'.join(FOLDERS)})/[\w.*-]+|make (?:setup|image|test|check)\b)")
# A message that names one all the same says that it is there.
IN_A_CHECKOUT = "in a checkout"
# Calls whose words people read, whatever they look like.
TOLD = re.compile(r".*Error|Problem|Finding|Refusal|print")


def list_messages(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts that people read: sentences, and all words of an error. A path by itself is read by dlc."""
    tree = ast.parse(path.read_text())
    quiet = {id(text) for text in _list_docstrings(tree)} | {id(text) for text in _list_descriptions(tree)}
    for node in ast.walk(tree):
        is_told = isinstance(node, ast.Call) and TOLD.fullmatch(_name_called(node))
        for text in ast.walk(node) if is_told else [node]:
            if not isinstance(text, ast.Constant) or not isinstance(text.value, str) or id(text) in quiet:
                continue
            if is_told or " " in text.value.strip():
                yield text.lineno, text.value


def _name_called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _list_docstrings(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            yield node.value


def _list_descriptions(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what schemas say of the keys of a checkout's own files."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "description":
            yield node.value


def find_wrong(path: Path) -> set[str]:
    return {
        f"{path.name}:{line}: {text}"
        for line, text in list_messages(path)
        if OF_A_CHECKOUT.search(text) and IN_A_CHECKOUT not in text
    }


def test_no_message_names_a_file_that_a_wheel_has_not() -> None:
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    assert len(files) > 200
    assert sorted(wrong for path in files for wrong in find_wrong(path)) == []


def test_what_counts_as_a_message(tmp_path: Path) -> None:
    file = tmp_path / "some.py"
    file.write_text(
        '"""Read docs/a.md first."""\n'
        'PAGE = "docs/b.md"\n'
        'HELP = "see docs/c.md"\n'
        'raise UsageError("no", "docs/d.md")\n'
        'raise UsageError("no", f"{x}, or make setup")\n'
        'raise UsageError("no", "docs/e.md, in a checkout")\n'
        'field(description="see docs/f.md")\n'
        'print("https://a.example/docs/g", "/opt/dlc/src/h")\n'
    )  # fmt: skip
    assert sorted(each.split(": ")[0] for each in find_wrong(file)) == ["some.py:3", "some.py:4", "some.py:5"]


def test_every_page_that_a_message_names_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    text = "".join(path.read_text() for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    named = {*re.findall(r"dlc help ([a-z][\w-]+)", text)} - {"exit-codes"}
    assert {"proof", "scale"} <= named
    for name in sorted(named - {*VERBS, "pages"}):
        assert main(["help", name]) == 0
        assert capsys.readouterr().out.startswith("# "), name


def test_a_page_is_printed_by_its_name_and_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "DLC113"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs/lint/DLC113.md").read_text()
    assert main(["help", "ci.md"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs/ci.md").read_text()
    assert main(["help", "pages"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == sorted(list_pages())
    assert main(["help", "prof"]) == UsageError.exit_code
    assert "prof: expected a verb or a page of dlc help pages, found neither; did you mean" in capsys.readouterr().err
