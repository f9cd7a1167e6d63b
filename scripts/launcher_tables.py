"""The generated tables of docs/launcher.md: the variables that are set, and the switches that are read.

`python scripts/launcher_tables.py docs/launcher.md` writes them into the document, between their markers.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "src/entrypoint"))

from launch.base.settings import SETTINGS
from launch.base.variables import VARIABLES


def variables_table() -> str:
    """The variables as a Markdown table."""
    rows = [
        f"| `{variable.name}` | {variable.when} | {'yes' if variable.user_wins else 'no'} | {variable.why} |"
        for variable in VARIABLES
    ]
    return "\n".join(["| variable | set | yours wins | why |", "|---|---|---|---|", *rows])


def switches_table() -> str:
    """The switches as a Markdown table."""
    rows = [f"| `{setting.name}` | {setting.default or '-'} | {setting.meaning} |" for setting in SETTINGS]
    return "\n".join(["| switch | default | meaning |", "|---|---|---|", *rows])


def refreshed(document: str) -> str:
    """The document with both tables as they are now."""
    for name, table in (("variables", variables_table()), ("switches", switches_table())):
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        head, _, rest = document.partition(begin)
        document = f"{head}{begin}{table}\n{end}{rest.partition(end)[2]}"
    return document


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(refreshed(page.read_text()))
