"""What a rule is: a code, a title, and a function that looks at one script."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dlc_lint.findings import FRAMEWORKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dlc_lint.findings import Hit
    from dlc_lint.script.script import Script


class Rule(NamedTuple):
    """`fixable` says whether `--fix` can change some of its findings."""

    code: str
    title: str
    check: Callable[[Script], Iterator[Hit]]
    fixable: bool = False

    @property
    def framework(self) -> str:
        """Return the framework, which the code's first digit names. Raises KeyError for a digit of no framework."""
        return FRAMEWORKS[self.code[3]]

    @property
    def page(self) -> str:
        """Return its page in the repository."""
        return f"docs/lint/{self.code}.md"
