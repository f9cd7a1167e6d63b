"""instances.yml: the machines that `dlc advise` knows, with their prices; a price that is not known is unknown."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from dlc.buildspec.models import UNKNOWN, Day, Name
from dlc.checked_yaml.patterns import ADDRESS, MACHINE, NETWORK, NUMBER, PRICE, WHOLE, YES_NO
from dlc.checked_yaml.problems import Problem, did_you_mean, raise_report
from dlc.checked_yaml.validation import Model, validate_node
from dlc.checked_yaml.yaml_layers import Node, parse_yaml
from dlc.core.checkout import Tree, read_text
from dlc.core.errors import SpecError

INSTANCES = "buildspec/instances.yml"


def _above_zero(text: str) -> str:
    """Raise ValueError for 0: `dlc advise` divides by these."""
    if text != UNKNOWN and not float(text.removeprefix("up to ")):
        raise ValueError("more than 0")
    return text


class Source(Model):
    """Where figures of this file come from."""

    address: Annotated[str, Field(pattern=ADDRESS)] = Field(description="address of the page")
    says: str = Field(min_length=1, description="which figures it has, and of which region and kind of use")


class Price(Model):
    """US dollars for one hour of one machine."""

    usd: Annotated[str, Field(pattern=PRICE), AfterValidator(_above_zero)] = Field(description="the price, or unknown")
    date: Day = Field(default="", description="day on which the source said so")
    source: str = Field(default="", description="a name below `sources`")

    @model_validator(mode="after")
    def _require_origin(self) -> Price:
        if self.usd != UNKNOWN and not (self.date and self.source):
            raise ValueError("a price with its date and its source")
        return self


class Instance(Model):
    """One type of machine."""

    vcpus: Annotated[str, Field(pattern=WHOLE), AfterValidator(_above_zero)] = Field(description="virtual CPUs")
    gpus: Annotated[str, Field(pattern=WHOLE)] = Field(default="0", description="accelerators")
    gpu: str = Field(default="", description="name of the accelerator")
    memory: Annotated[str, Field(pattern=NUMBER)] = Field(description="memory in GiB")
    network: Annotated[str, Field(pattern=NETWORK), AfterValidator(_above_zero)] = Field(
        description="Gbit/s; `up to`: not for long"
    )
    efa: Annotated[str, Field(pattern=YES_NO)] = Field(default="no", description="has an Elastic Fabric Adapter")
    price: Price = Field(description="US dollars for one hour")


class Instances(Model):
    """instances.yml: machines that jobs may run on."""

    sources: dict[Name, Source] = Field(description="name -> where figures come from")
    instances: dict[Annotated[str, Field(pattern=MACHINE)], Instance] = Field(description="type -> the machine")


def read_instances(tree: Tree) -> Instances:
    """Read the file of machines. Raises SpecError with file:line:col of every mistake."""
    node, problems = parse_yaml(read_text(tree, INSTANCES), INSTANCES)
    raise_report(problems)
    if node is None:
        raise SpecError(f"{INSTANCES}: expected YAML")
    if not node.children():
        raise SpecError(f"{node.mark}: expected the mappings `sources` and `instances`")
    found, problems = validate_node(Instances, node)
    raise_report(problems or _find_unsourced(found, node))
    if found is None:
        raise SpecError(f"{INSTANCES}: expected `sources` and `instances`")
    return found


def _find_unsourced(found: Instances | None, node: Node) -> list[Problem]:
    """Find prices that name a source which the file does not have."""
    problems = []
    for name, instance in (found.instances if found else {}).items():
        named = instance.price.source
        place = node.at(("instances", name, "price", "source"))
        if found and named and place and named not in found.sources:
            known = ", ".join(found.sources) or "none"
            problems.append(
                Problem(place.mark, f"instances.{name}.price.source", f"a name below `sources` ({known})",
                        repr(named), did_you_mean(named, found.sources))
            )  # fmt: skip
    return problems
