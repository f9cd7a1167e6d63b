"""Finds in training scripts what a compiler stumbles over; may import libcst and the standard library, nothing of dlc.

`lint(source, path)` is the entry for programs, `python -m dlc_lint script.py` the one for people.
"""

from __future__ import annotations

from dlc_lint.findings import BadScriptError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dlc_lint.findings import Finding

__all__ = ["BadScriptError", "lint"]


def lint(source: str, path: str = "<script>", *, framework: str = "", compiler: str = "") -> list[Finding]:
    """Return what the rules find in one script, in the order of its lines, without what `# noqa` comments silence.

    `framework` is pytorch or tensorflow, for their rules alone. `compiler` is inductor or xla if the job says which;
    "" goes by the script. Raises BadScriptError for what is no Python.
    """
    from dlc_lint.check import check

    return check(source, path, framework, compiler)
