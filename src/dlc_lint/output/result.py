"""What one run over some scripts gave; a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dlc_lint.base.errors import BadScriptError
    from dlc_lint.base.finding import Finding


class Result(NamedTuple):
    """`fixed` are findings that --fix has done away with, `notes` what another tool could not do."""

    scripts: int
    findings: tuple[Finding, ...]
    errors: tuple[BadScriptError, ...]
    fixed: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
