"""Versions are ordered as pip and dpkg order them, and ranges mean the same as there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlc.buildspec.matrix import load_variants
from dlc.buildspec.versions import debian_satisfies, is_newer, parse_number, satisfies, starts_with
from dlc.core.errors import SpecError
from harness.specimen import COMPAT, changed, specimen

numbers = st.lists(st.integers(0, 300), min_size=1, max_size=4)


@given(numbers, numbers)
def test_ranges_order_versions_as_their_numbers(left: list[int], right: list[int]) -> None:
    a, b = ".".join(map(str, left)), ".".join(map(str, right))
    padded = [part + [0] * (4 - len(part)) for part in (left, right)]
    assert satisfies(a, f">={b}") == (padded[0] >= padded[1])
    assert satisfies(a, f"<{b}") == (padded[0] < padded[1])
    assert satisfies(a, f"=={b}") != satisfies(a, f"!={b}")


@pytest.mark.parametrize(
    ("found", "condition", "holds"),
    [
        ("3.11", ">=3.9,<3.12", True),
        ("3.9", ">=3.10", False),
        ("2.13.0+cpu", "==2.13", True),
        ("2.13.0+cpu", ">2.13", False),
        ("2.13.0+cpu", "==2.13.0+cu128", False),
        ("2.5.0rc1", ">=2.5", False),
        ("2.5.0rc1", ">=2.4", True),
        ("2.5.post1", ">=2.5", True),
        ("1!1.0", ">=2.0", True),
        ("1.17", "~=1.15", True),
        ("cu128", "cu*", True),
        ("cpu", "cu[0-9]*", False),
        ("pytorch", "pytorch", True),
        ("pytorch", ">=1", False),
        ("", ">=1.38", False),
    ],
)
def test_a_condition_is_a_range_or_a_glob(found: str, condition: str, holds: bool) -> None:
    assert satisfies(found, condition) is holds


@pytest.mark.parametrize(
    ("found", "condition", "holds"),
    [
        ("1:9.2p1-2+deb12u6", ">=1:9.2p1-2+deb12u5", True),
        ("1:9.2p1-2+deb12u6", ">=9.3", True),  # an epoch is above every version without one
        ("9.3-1", "<1:9.2", True),
        ("1.28.0~rc1-1", "<1.28.0", True),
        ("1.28.0-1", ">=1.28,<1.29", True),
        ("2.36-9+deb12u10", ">2.36-9+deb12u9", True),
        ("1.22-1", "==1.22", False),
    ],
)
def test_debian_versions_have_debians_order(found: str, condition: str, holds: bool) -> None:
    assert debian_satisfies(found, condition) is holds


@pytest.mark.parametrize(
    ("later", "earlier"), [("2.5.0", "2.5.0rc1"), ("2.5.0.post1", "2.5.0"), ("1!0.1", "9.0"), ("2.13.1+cpu", "2.13.0")]
)
def test_candidates_and_post_releases_and_epochs_count(later: str, earlier: str) -> None:
    assert is_newer(later, earlier)
    assert not is_newer(earlier, later)


def test_a_text_is_sorted_by_the_number_that_it_begins_with() -> None:
    names = ["2.13-training.yml", "2.9-training.yml", "other.yml"]
    assert sorted(names, key=parse_number) == ["other.yml", "2.9-training.yml", "2.13-training.yml"]


def test_a_series_ends_at_a_number_boundary() -> None:
    assert starts_with("2.1.3", "2.1")
    assert starts_with("2.1+cpu", "2.1")
    assert starts_with("2.1.0rc1", "2.1")
    assert not starts_with("2.13.0", "2.1")
    assert not starts_with("12.1", "2.1")
    assert not starts_with("", "2.1")


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("{python: '>=3.10,<3.x'}", "expected a version range such as >=3.10,<3.14, or a glob, found '>=3.10,<3.x'"),
        ("{debian: {libc6: '2.36*'}}", "expected Debian's versions, as in >=1:9.2p1-2, found '2.36*'"),
    ],
)
def test_a_condition_that_nothing_can_fulfil_is_an_error(rule: str, words: str) -> None:
    text = f"{COMPAT}  - when: {rule}\n    then: {{device: cpu}}\n    why: a test\n"
    with pytest.raises(SpecError) as caught:
        load_variants(changed(specimen(), "buildspec/compat.yml", text))
    assert words in caught.value.message


def test_a_rule_about_a_debian_package_compares_as_debian_does() -> None:
    text = COMPAT + "  - when: {device: cpu}\n    then: {debian: {libc6: '>=2.36-10'}}\n    why: a test\n"
    with pytest.raises(SpecError, match=r"debian\.libc6: expected >=2\.36-10 because a test .*, found '2\.36-9'"):
        load_variants(changed(specimen(), "buildspec/compat.yml", text))


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("buildspec/pins.yml", "2.4.6", "2.4.x"),
        ("buildspec/defaults.yml", "transformers, numpy]", "transformers, numpy==2.x.y]"),
    ],
)
def test_a_version_that_no_package_can_have_is_an_error(path: str, old: str, new: str) -> None:
    text = specimen()[path].data.decode()
    assert old in text
    with pytest.raises(SpecError, match=r"that Python packages may have \(PEP 440"):
        load_variants(changed(specimen(), path, text.replace(old, new)))
