"""What a rule is: a code, a title, and a function that looks at one script."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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
        """Return the framework: DLC1xx are for PyTorch, DLC2xx for TensorFlow."""
        return "pytorch" if self.code.startswith("DLC1") else "tensorflow"

    @property
    def page(self) -> str:
        """Return its page in the repository."""
        return f"docs/lint/{self.code}.md"
