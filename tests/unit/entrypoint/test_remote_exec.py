"""remote_exec: the leader's mpirun starts another host's daemon, and nobody starts anything else; real programs."""

from __future__ import annotations

import pytest

from launch.coordination.remote_exec import LONGEST_COMMAND, split_command, why_refused

REAL = (  # as Open MPI 4.1 and 5.0 call their agent
    ' orted --daemonize -mca ess "env" -mca orte_node_regex "a,b@0(2)" -mca orte_hnp_uri "1.0;tcp://10.0.0.1:5"',
    "  PATH=/usr/bin:$PATH ; export PATH ; LD_LIBRARY_PATH=/usr/lib:${LD_LIBRARY_PATH:-} ; export LD_LIBRARY_PATH ;"
    '   /usr/bin/orted --daemonize -mca orte_hnp_uri "1.0;tcp://10.0.0.1:5"',
    "PRTE_PREFIX=/usr;export PRTE_PREFIX;LD_LIBRARY_PATH=/usr/lib:$LD_LIBRARY_PATH;export LD_LIBRARY_PATH;"
    '/usr/bin/prted --prtemca ess "env" --prtemca prte_hnp_uri "prterun-a-70@0.0;tcp://10.0.0.1:39335:24"',
)


@pytest.mark.parametrize("command", REAL)
def test_what_open_mpi_asks_for_is_accepted(command: str) -> None:
    assert why_refused(command) == ""


@pytest.mark.parametrize(
    "command",
    [
        "", ";", "ls", "sh -c orted", "orted; ls", "ls; orted", "orted & ls", "orted && ls", "orted | ls", "orted > f",
        "orted $(ls)", "orted `ls`", "orted\nls", "X=/a/orted ls", "orted#;ls", "(orted)", "orted '",
        "export X ls; orted", "A=1 ls; orted", "/bin/orted-not", "x" * 10 + "; orted", "orted " + "x" * LONGEST_COMMAND,
        "( test ! -r ./.profile || . ./.profile; ls)", "orted <(ls)", "orted \"$(ls)\"",
    ],
)  # fmt: skip
def test_what_starts_anything_else_is_refused(command: str) -> None:
    assert why_refused(command)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("b-1.svc", "orted", "-x"), ("b-1.svc", "orted -x")),
        (("-x", "-p", "22", "b-1", "orted"), ("b-1.svc", "orted")),
        (("10.0.0.2", "orted", "10.0.0.3"), ("10.0.0.2", "orted 10.0.0.3")),
    ],
)
def test_a_host_is_found_behind_options_and_without_its_domain(words: tuple[str, ...], found: tuple[str, str]) -> None:
    assert split_command(words, ("a.svc", "b-1.svc", "10.0.0.2")) == found
