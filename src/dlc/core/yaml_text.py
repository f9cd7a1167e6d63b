"""Values as YAML that people read: a line stays a line, and a text of several lines is written line by line.

yaml is slow to import: who writes only if it is asked to imports this module there.
"""

from __future__ import annotations

from typing import Any

import yaml

# No line of a value is folded.
LINE_CHARACTERS = 1 << 20


class Shared(list[Any]):
    """A list that is written once: `*steps` stands for it in other places."""


class _Dumper(yaml.SafeDumper):
    """Writes a second time only what is Shared by name."""

    def ignore_aliases(self, data: object) -> bool:
        """Tell whether a value is written in each place where it stands."""
        return not isinstance(data, Shared)

    def generate_anchor(self, node: yaml.Node) -> str:
        """Return the one name of what is shared."""
        return "steps"


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(Shared, yaml.SafeDumper.represent_list)
_Dumper.add_representer(str, _represent_text)


def write_yaml(*documents: object) -> str:
    """Return documents as YAML, keys in their order."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=LINE_CHARACTERS, allow_unicode=True)
