"""A job on its way to a place: its name, its folder, its images' references, and what the place refuses of it."""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from dlc.buildspec.matrix import load_variants
from dlc.buildspec.platforms import name_foreign
from dlc.buildspec.selection import find_image
from dlc.buildspec.variant import Variant
from dlc.checked_yaml.problems import Mark, Problem, raise_report
from dlc.core.checkout import read_workspace
from dlc.core.environment import user_path
from dlc.core.errors import UsageError
from dlc.core.image_references import is_reference
from dlc.core.platforms import ANY_PLATFORM
from dlc.job.code_files import RESULTS
from dlc.job.job_file import list_open_secrets, read_job_file
from dlc.job.job_spec import JobSpec
from dlc.job.stated_job import StatedJob
from dlc.job.values import NAME
from dlc.places.place import LOCAL, Refusal, load_place


class Images:
    """Finds the images of a job. Only an identifier needs the buildspec, which takes a while to read: once."""

    @cached_property
    def _variants(self) -> Sequence[Variant]:
        return load_variants(read_workspace(), platform=ANY_PLATFORM)

    def find_reference(self, word: str) -> str:
        """Return the Docker reference of an image. Raises SelectorError for an identifier that no image has."""
        return word if is_reference(word) else find_image(word, self._variants)[0]

    def fit_job(self, job: JobSpec, options: Any) -> tuple[JobSpec, Any]:
        """Return the job and the options of this machine with what the buildspec says of the job's image.

        The folders of a job are made for its user, and Docker has to be told a foreign platform.
        """
        _, variant = find_image(job.image, self._variants)
        own = variant.settings.user if variant else None
        told = options.model_copy(update={"platform": options.platform or name_foreign(variant)})
        return job.model_copy(update={"user": job.user or (own.name if own else "")}), told


def read_open_file(word: str) -> StatedJob:
    """Return the job of a file; warn of secrets in it."""
    stated = read_job_file(user_path(word))
    for warning in list_open_secrets(stated.spec):
        print(f"dlc: warning: {warning}", file=sys.stderr)
    return stated


def place_job(spec: JobSpec, verb: str, name: str, output: str | None, images: Images, *, prefix: str = "") -> JobSpec:
    """Return the job with a name, a folder, and references of its images."""
    name = name or spec.name or f"{prefix}{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    if not re.fullmatch(NAME, name):
        raise UsageError(f"--name {name}: expected at most 63 letters, digits, _ . and -", f"dlc {verb} --help")
    folder = user_path(output).absolute() if output else Path.cwd() / RESULTS / name
    return spec.place(name, folder, images.find_reference)


def raise_refusals(job: JobSpec, options: Any, stated: StatedJob, place: str) -> None:
    """Raise one report of all that a place cannot do of the job, with where it was said; return if there is nothing."""
    who = "" if place == LOCAL else f"for {place} "
    raise_report(
        Problem(_find_mark(refusal, stated, place), _name_keys(refusal, stated), f"{who}{refusal.expected}",
                refusal.found, refusal.hint)
        for refusal in load_place(place).refuse_job(job, options)
    )  # fmt: skip


def _name_keys(refusal: Refusal, stated: StatedJob) -> str:
    """Return the way to the value in the file; a job that was typed has none."""
    return ".".join(refusal.keys) if stated.node.mark.line else ""


def _find_mark(refusal: Refusal, stated: StatedJob, place: str) -> Mark:
    """Return where it was said; what is the place's own was said by --to."""
    keys: Sequence[str] = refusal.keys
    while keys:
        if node := stated.node.at(tuple(keys)):
            return node.mark
        keys = keys[:-1]
    return Mark(f"--to {place}")
