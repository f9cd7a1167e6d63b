"""What all places refuse alike. Pure. May import jobs.run, submit.places."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dlc.jobs.run.job import GRACE, HOST_VARIABLE, ONLY_GROUP, SHARED_MEMORY
from dlc.submit.places import Refusal, SubmittedJob

IMAGE_HINT = "dlc push it and name it with --image"


def has_registry(image: str) -> bool:
    """Tell whether a Docker reference begins with its registry, as Docker itself reads it."""
    registry, slash, _ = image.partition("/")
    return bool(slash) and (registry == "localhost" or bool(re.search("[.:]", registry)))


def refuse_image(job: SubmittedJob, hint: str = "") -> Iterator[Refusal]:
    """Yield an image without its registry: hosts would ask Docker Hub, where the name is somebody else's.

    `hint` says how else the place may be given the image.
    """
    if not has_registry(job.image):
        words = f"{IMAGE_HINT}; {hint}" if hint else IMAGE_HINT
        yield Refusal(("image",), "an image with its registry, such as REGISTRY/NAME:TAG", job.image, words)


def refuse_variables(job: SubmittedJob, who: str) -> Iterator[Refusal]:
    """Yield variables that contradict what the place says of the hosts, or the job itself of its grace."""
    for name in (*job.environment, *job.secrets):
        if HOST_VARIABLE.fullmatch(name):
            yield Refusal(("environment", name), f"hosts that {who} names", name, "leave it out")
    if (stated := job.environment.get(GRACE, str(job.grace))) != str(job.grace):
        yield Refusal(("environment", GRACE), f"the job's grace, {job.grace}", stated, "say it with grace")


def refuse_shared_memory(job: SubmittedJob, who: str) -> Iterator[Refusal]:
    """Yield shared memory that the job states, at a place that sets it itself."""
    if job.states_shared_memory or job.shared_memory not in ("", SHARED_MEMORY):
        yield Refusal(
            ("shared_memory",), f"none: {who} sets it by the machine", repr(job.shared_memory), "leave it out"
        )


def name_group_keys(group: str, key: str) -> tuple[str, ...]:
    """Return where a group's value stands in the file; of the only group, which has no name, it is the job's."""
    if group == ONLY_GROUP:
        return ("hosts",) if key == "hosts" else ("resources", key)
    return ("groups", group, key)
