"""The profile's settings, from DLC_PROFILE and its options. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

SWITCH = "DLC_PROFILE"
ENDS = "DLC_PROFILE_ENDS_JOB"
TRUE, FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")
BASE = "/opt/ml"
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "HOROVOD_RANK", "PMI_RANK", "SLURM_PROCID")
WORLD_SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "HOROVOD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "HOROVOD_LOCAL_RANK", "SLURM_LOCALID")


class Settings(NamedTuple):
    on: bool = False
    report: str = f"{BASE}/output/data/profile"
    # Measured, then the script runs on without.
    steps: int = 200
    # First steps, which also prepare and compile.
    skip: int = 3
    rank: int = 0
    local_rank: int = 0
    ranks: int = 1
    # The script too, once enough is measured: with exit code 0, and nothing is saved.
    ends: bool = False


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Read the settings; raise ValueError with the variable, what was expected and what was found."""
    return Settings(
        on=_switch(environ, SWITCH),
        # The script may change its working directory.
        report=os.path.abspath(environ.get("DLC_PROFILE_REPORT") or _report(environ)),
        steps=_number(environ, "DLC_PROFILE_STEPS", 200, least=1),
        skip=_number(environ, "DLC_PROFILE_SKIP", 3, least=0),
        rank=_first(environ, RANKS),
        local_rank=_first(environ, LOCAL_RANKS),
        ranks=max(_first(environ, WORLD_SIZES), 1),
        ends=_switch(environ, ENDS),
    )


def _report(environ: Mapping[str, str]) -> str:
    """Return the launcher's folder for results, else the folder in which it would look."""
    base = environ.get("SAGEMAKER_BASE_DIR") or BASE
    return os.path.join(environ.get("SM_OUTPUT_DATA_DIR") or f"{base}/output/data", "profile")


def _switch(environ: Mapping[str, str], name: str) -> bool:
    value = environ.get(name, "").strip().lower()
    if value not in TRUE + FALSE:
        raise ValueError(f"{name}={environ[name]}: expected 1 or 0")
    return value in TRUE


def _number(environ: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = environ.get(name, "").strip()
    if text and not (text.isdigit() and len(text) < 10 and int(text) >= least):
        raise ValueError(f"{name}={text}: expected a whole number from {least} on")
    return int(text) if text else default


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> int:
    values = (environ.get(name, "") for name in names)
    return next((int(value) for value in values if value.isdigit()), 0)
