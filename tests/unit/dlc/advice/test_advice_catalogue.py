"""buildspec/instances.yml: every mistake is one line with its place; a known price has a date and a source."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc.advice.cost_model import make_catalogue, parse_cluster
from dlc.buildspec.instances import INSTANCES, read_instances
from dlc.core.checkout import SourceFile, find_root, read_tree
from dlc.core.errors import SpecError, UsageError

C5 = "instances.c5.9xlarge"
TEXT = """\
sources:
  page: {address: "https://example.org/prices", says: prices of one region}
instances:
  c5.9xlarge: {vcpus: "36", memory: "72", network: "12", price: {usd: "1.836", date: "2022-10-27", source: page}}
  g5.xlarge: {vcpus: "4", gpus: "1", gpu: A10G, memory: "16", network: up to 10, price: {usd: unknown}}
"""


def read(text: str) -> object:
    return read_instances({INSTANCES: SourceFile(text.encode())})


def test_the_committed_file_says_where_each_price_is_from_and_invents_none() -> None:
    found = read_instances(read_tree(find_root(Path(__file__).parent)))
    prices = {name: instance.price for name, instance in found.instances.items()}
    known = {name: price.usd for name, price in prices.items() if price.usd != "unknown"}
    assert known == {"p3.2xlarge": "3.825", "p4d.24xlarge": "37.688", "c5.9xlarge": "1.836", "c5.18xlarge": "3.672"}
    assert all(prices[name].date and prices[name].source in found.sources for name in known)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"36"', "many", f"{INSTANCES}:4:23: {C5}.vcpus: expected a whole number such as 96, found 'many'"),
        ('"1.836"', "cheap", "US dollars for an hour such as 3.825, or unknown, found 'cheap'"),
        (', date: "2022-10-27"', "", f"{INSTANCES}:4:65: {C5}.price: expected a price with its date and its source"),
        ('"2022-10-27"', '"2022-02-30"', "expected a value that exists"),
        ("source: page}", "source: paeg}", "a name below `sources` (page), found 'paeg'; did you mean 'page'?"),
        ("vcpus", "vcpu", "did you mean 'vcpus'?"),
        ('"36"', '"0"', f"{INSTANCES}:4:23: {C5}.vcpus: expected more than 0, found '0'"),
        ("up to 10", "up to 0.0", "network: expected more than 0, found 'up to 0.0'"),
        ('"1.836"', '"0"', f"{C5}.price.usd: expected more than 0, found '0'"),
        ("up to 10", "fast", "expected Gbit/s such as 25, or `up to 10`, found 'fast'"),
        ("c5.9xlarge", "ml.c5.9xlarge", "a machine's type such as c5.18xlarge, without `ml.`"),
        (TEXT, "", "expected the mappings `sources` and `instances`"),
        (TEXT, "- one", "expected the mappings `sources` and `instances`"),
        ("{usd: unknown}", "unknown", "instances.g5.xlarge.price: expected a mapping, found 'unknown'"),
        (TEXT, "instances: [", f"{INSTANCES}:1:"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_with_its_place(old: str, new: str, said: str) -> None:
    assert read(TEXT)
    with pytest.raises(SpecError) as caught:
        read(TEXT.replace(old, new, 1))
    assert said in caught.value.message
    assert caught.value.message.startswith(INSTANCES)
    assert "\n" not in caught.value.message or old == "vcpus"  # an unknown key is also a missing one


def test_a_missing_file_is_named() -> None:
    with pytest.raises(SpecError, match=INSTANCES):
        read_instances({})


@pytest.mark.parametrize(
    "text", ["", "p4d", "c5.9xlarge+", "0*c5.9xlarge", "c5.9xlarge+c5.9xlarge+c5.9xlarge", "c5.9xlarg"]
)
def test_a_cluster_that_cannot_be_is_refused_with_the_form_or_the_nearest_name(text: str) -> None:
    machines = make_catalogue(read_instances({INSTANCES: SourceFile(TEXT.encode())}), {})
    with pytest.raises(UsageError, match=r"--on: .*(such as p4d|did you mean 'c5.9xlarge'|at least one host)"):
        parse_cluster(machines, text, "--on")


def test_a_price_of_the_user_takes_the_place_of_the_files() -> None:
    machines = make_catalogue(read_instances({INSTANCES: SourceFile(TEXT.encode())}), {"g5.xlarge": 1.5})
    assert (machines["g5.xlarge"].price, machines["g5.xlarge"].price_from) == (1.5, "--price")
    assert (machines["c5.9xlarge"].price, machines["c5.9xlarge"].price_from) == (1.836, "page, 2022-10-27")
