"""The platforms of an image: which it is made for, which it cannot be made for, and why."""

from __future__ import annotations

from collections.abc import Mapping

from dlc.buildspec.compat import fulfils
from dlc.buildspec.models import Compat
from dlc.buildspec.variant import Variant
from dlc.checked_yaml.problems import Problem
from dlc.checked_yaml.yaml_layers import Node, merge_layers
from dlc.core.platforms import PLATFORMS

NOT_ASKED = "the buildspec asks for none: `platforms` (dlc help buildspec)"


def split_by_platform(node: Node) -> list[Node]:
    """Return the settings of an image once for each of its platforms, with what only that platform's image has."""
    listed = node.at(("platforms",))
    items = listed.value if listed and isinstance(listed.value, tuple) else ()
    # Without a list: its one platform, whatever that holds.
    found = list(items) or [each for each in (node.at(("platform",)),) if each]
    if not found:
        return [node]
    return [_choose_platform(node, item) for item in found]


def _choose_platform(node: Node, item: Node) -> Node:
    merged = merge_layers(node, Node({"platform": item}, node.mark))
    own = node.at(("by_platform", str(item.value)))
    return merge_layers(merged, own) if own and own.children() else merged


def name_foreign(variant: Variant | None) -> str:
    """Return the platform of an image if Docker has to be told it; empty for the first platform, and for no image."""
    return variant.platform.name if variant and variant.platform.suffix else ""


def explain_platforms(variant: Variant, compat: Compat) -> Mapping[str, str]:
    """Map each platform to the reason why the image cannot be had for it; an empty reason: it can."""
    asked = {*variant.settings.platforms, variant.settings.platform}
    return {name: "" if name in asked else _find_reason(variant, compat, name) or NOT_ASKED for name in PLATFORMS}


def check_platform(variant: Variant, compat: Compat) -> list[Problem]:
    """Return a problem if the image is of a platform that a rule says it cannot be made for.

    Whoever asks for it by --set may have an index that the rule does not know of.
    """
    name = variant.settings.platform
    reason = _find_reason(variant, compat, name)
    if not reason or variant.plain:
        return []
    mark = (variant.node.at(("platform",)) or variant.node).mark
    return [Problem(mark, "platforms", f"no {name}, because {reason}", repr(name), f"in {variant.id}")]


def _find_reason(variant: Variant, compat: Compat, platform: str) -> str:
    rules = [rule for rule in compat.platforms if rule.platform == platform and fulfils(variant, rule.when)]
    return rules[0].why if rules else ""
