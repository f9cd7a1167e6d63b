"""The size of src: how lines are counted, which rooms there are, and when the tables of architecture.md are stale."""

from __future__ import annotations

import pytest

from dlc.cli.docs import ARCHITECTURE, HOUSE, ROOMS, read_sizes, read_table, update_rooms
from dlc.cli.shared.house_figures import FileSize, find_room, is_near, make_rooms_table, measure_file
from dlc.core.checkout import find_root

EXAMPLE = '''"""What a module is.

More of it.
"""

# Why
LIMIT = 2  # of what

def read(name):
    """Return it."""

    return name
'''


def test_code_lines_are_no_blanks_comments_and_docstrings() -> None:
    assert measure_file(EXAMPLE) == FileSize(code_lines=3, lines=12, functions=(4,))


@pytest.mark.parametrize(
    ("path", "room"),
    [
        ("dlc/plan/ci/github.py", "dlc/plan"),
        ("dlc/places/slurm/script.py", "dlc/places/slurm"),
        ("dlc/places/place.py", "dlc/places"),
        ("dlc_lint/rules/pytorch/steps.py", "dlc_lint"),
        ("entrypoint/launch/plan/strategies/ray.py", "entrypoint/launch/plan"),
    ],
)
def test_a_room_is_the_outermost_folder_that_is_no_building(path: str, room: str) -> None:
    assert find_room(path) == room


def test_a_row_has_files_code_lines_the_longest_file_and_a_peer() -> None:
    files = {"dlc_lint/check.py": FileSize(1000, 300, ()), "dlc_lint/rules/a.py": FileSize(500, 350, ())}
    assert make_rooms_table(files).splitlines()[2:] == ["| **dlc_lint** | 2 | 1,500 | 350 | TorchFix 0.7.0, 1,316 |"]


def test_a_table_is_stale_if_a_figure_is_off_by_more_than_a_tenth_or_a_room_is_new() -> None:
    table, size = make_rooms_table({"dlc/a/b.py": FileSize(1000, 300, ())}), FileSize(1100, 390, ())
    assert is_near(table, make_rooms_table({"dlc/a/b.py": size}))
    assert not is_near(table, make_rooms_table({"dlc/a/b.py": size._replace(code_lines=1120)}))
    assert not is_near(table, make_rooms_table({"dlc/a/b.py": size, "dlc/c/d.py": FileSize(1, 1, ())}))


def test_the_tables_of_architecture_md_are_current() -> None:
    """`dlc docs` writes them anew."""
    text = (find_root() / ARCHITECTURE).read_text()
    fresh = update_rooms(text, read_sizes(find_root() / "src"))
    for name in (ROOMS, HOUSE):
        written, now = (read_table(page, name) for page in (text, fresh))
        assert now
        assert is_near(written, now), now
