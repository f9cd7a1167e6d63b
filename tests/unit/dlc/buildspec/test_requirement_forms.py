"""The forms of a requirement: which version it names, what fits it, which addresses are taken."""

from __future__ import annotations

import pytest

from dlc.buildspec.requirement_forms import explain_address, find_address, find_exact_version, is_bare, is_satisfied
from dlc.buildspec.variant import normal_name

GIT = "Tiny_Pkg @ git+https://host/team/tiny@main"


@pytest.mark.parametrize(
    ("requirement", "bare", "exact", "address"),
    [
        ("einops", True, "", ""),
        ("lightning[extra]", True, "", ""),
        ("torch==2.13.0+cpu", False, "2.13.0+cpu", ""),
        ("uvicorn[standard]==0.30", False, "0.30", ""),
        ("einops==0.8.*", False, "", ""),
        ("einops>=0.7,<1", False, "", ""),
        (GIT, False, "", "git+https://host/team/tiny@main"),
    ],
)
def test_a_requirement_is_a_name_a_version_a_range_or_an_address(
    requirement: str, bare: bool, exact: str, address: str
) -> None:
    assert (is_bare(requirement), find_exact_version(requirement), find_address(requirement)) == (bare, exact, address)


def test_the_name_ends_where_a_version_or_an_address_begins() -> None:
    assert [normal_name(each) for each in (GIT, "A.b>=1", "a[x]~=1", "a@https://h/a.whl")] == [
        "tiny-pkg",
        "a-b",
        "a",
        "a",
    ]


@pytest.mark.parametrize(
    ("requirement", "version", "fits"),
    [
        ("a", "1", True),
        ("a==1.0", "1.0", True),
        ("a==1.0", "1.1", False),
        ("a>=1,<2", "1.5", True),
        ("a>=1,<2", "2.0", False),
        (GIT, "0.1", True),
    ],
)
def test_a_locked_version_is_compared_with_the_whole_range(requirement: str, version: str, fits: bool) -> None:
    assert is_satisfied(requirement, version) is fits


@pytest.mark.parametrize(
    ("address", "taken"),
    [
        ("https://host/a-1-py3-none-any.whl", True),
        ("https://host/a-1.tar.gz", True),
        ("file:///folder/a-1.zip", True),
        ("git+https://host/team/a@v1", True),
        ("git+ssh://git@host/team/a", True),
        (f"http://host/a-1-py3-none-any.whl#sha256={'0' * 64}", True),
        ("http://host/a-1-py3-none-any.whl", False),
        ("git+http://host/team/a", False),
        ("https://token@host/a-1-py3-none-any.whl", False),
        ("git+ssh://git:secret@host/team/a", False),
        ("https://host/page", False),
    ],
)
def test_an_address_is_taken_if_nobody_else_can_answer_for_it_and_it_holds_no_password(
    address: str, taken: bool
) -> None:
    assert (explain_address(address) == "") is taken
