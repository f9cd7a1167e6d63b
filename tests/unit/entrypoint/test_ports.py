"""Ports: each can be set, and two jobs of one Slurm cluster on one node do not meet."""

from __future__ import annotations

import pytest

from launch.base import settings
from launch.base.errors import LaunchError


def all_of(environ: dict[str, str]) -> list[int]:
    return [settings.port_of(environ, name) for name in settings.PORTS]


@pytest.mark.parametrize("name", settings.PORTS)
def test_every_port_can_be_set(name: str) -> None:
    assert settings.port_of({name: "12345", "SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "a"}, name) == 12345
    assert settings.port_of({}, name) == settings.PORTS[name]
    with pytest.raises(LaunchError, match=name):
        settings.port_of({name: "x"}, name)


def test_two_jobs_of_slurm_on_one_node_have_ports_of_their_own() -> None:
    jobs = [{"SLURM_JOB_ID": str(job), "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "n1"} for job in range(100, 120)]
    known = [port for job in jobs for port in all_of(job)]
    assert len(set(known)) == len(known)
    assert all(20000 <= port < 32768 for port in known)
    assert all_of(jobs[0]) == all_of(dict(jobs[0]))
