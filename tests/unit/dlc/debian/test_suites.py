"""debian.suites: facts about Debian releases are in one table, and an unknown release is refused by name."""

from __future__ import annotations

import pytest

from dlc.core.errors import DlcError
from dlc.debian import suites
from dlc.debian.suites import SUITES, find_suite


@pytest.mark.parametrize("name", SUITES)
def test_a_merged_usr_is_asked_for_where_the_suite_has_one(name: str) -> None:
    assert ("usr-is-merged" in " ".join(suites.mmdebstrap_command(name))) is find_suite(name).merged_usr


@pytest.mark.parametrize("ask", [find_suite, suites.mmdebstrap_command], ids=["facts", "mmdebstrap"])
def test_an_unknown_suite_is_an_error_that_names_the_known_ones_and_the_table(ask: object) -> None:
    assert callable(ask)
    with pytest.raises(DlcError, match=r"suite sarge: expected one of bullseye, bookworm, trixie") as caught:
        ask("sarge")
    assert "in a checkout, src/dlc/debian/suites.py takes a new one" in caught.value.remedy
