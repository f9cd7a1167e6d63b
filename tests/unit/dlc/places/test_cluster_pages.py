"""The pages about clusters: what stands in blocks is run by tests of each place, and what stands in the text exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from dlc.cli import make_parser
from harness.pages import find_blocks

ROOT = Path(__file__).parents[4]
# Page -> the test that runs all commands of its blocks.
RUN_BY = {
    "docs/clusters.md": "tests/process/dlc/test_submit_verb.py",
    "docs/clusters/kubernetes.md": "tests/process/dlc/test_submit_kubectl.py",
    "docs/clusters/sagemaker.md": "tests/process/dlc/test_submit_sagemaker_verb.py",
    "docs/clusters/tasks.md": "tests/unit/dlc/places/test_submit_task_files.py",
}


def list_inline(page: str) -> list[str]:
    """The commands of dlc in a page's text, without its blocks."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`(dlc [a-z][^`]*)`", text)


def test_every_page_has_a_test_that_runs_its_commands() -> None:
    found = ["docs/clusters.md", *(f"docs/clusters/{path.name}" for path in (ROOT / "docs/clusters").glob("*.md"))]
    assert sorted(found) == sorted(RUN_BY)
    for page, test in RUN_BY.items():
        text = (ROOT / test).read_text()
        assert f'"{page}"' in text
        assert "def test_the_commands_of_the_page_run(" in text
        assert find_blocks((ROOT / page).read_text())


@pytest.mark.parametrize("page", RUN_BY)
def test_a_command_in_the_text_has_a_verb_and_options_of_dlc(page: str) -> None:
    for command in list_inline(page):
        verb, *words = shlex.split(command.removeprefix("dlc "))
        known = make_parser(verb)[0]._option_string_actions
        options = [word.partition("=")[0] for word in words if word.startswith("-")]
        assert [option for option in options if option not in known] == [], command
