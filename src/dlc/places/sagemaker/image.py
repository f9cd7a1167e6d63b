"""The digest of a job's image in ECR: what the registry has under a tag is asked for once, and then named for good."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dlc.core.errors import EngineError, ImageError, ProcessError
from dlc.core.labels import KEY
from dlc.engine.connection import find_engine
from dlc.engine.questions import ask_engine
from dlc.places.sagemaker.aws import AwsError, call_aws
from dlc.places.sagemaker.request import ECR

# Digits of the content key at the end of a tag, as `dlc push` makes them.
KEY_DIGITS = 12
# dlc's own references: dlc/pytorch:2.13-training-cpu-py311.
OWN = re.compile(r"(?P<series>[0-9]+(\.[0-9]+)*)-(?P<rest>[a-z]+-[a-z0-9]+-py[0-9]+(-[a-z]+)?)(?P<set>-set-[0-9a-f]+)?")
MOST_TAGS_SHOWN = 5


@dataclass(frozen=True)
class Stored:
    """An image of a repository."""

    digest: str
    tags: tuple[str, ...]
    # When it was pushed, as the registry says it; it sorts.
    pushed: Any


def find_image(address: str, local: str, *, is_chosen: bool) -> str:
    """Return the address with the digest that the registry has.

    `local` is the reference that this machine's engine may have: if it has one, the registry's image has to be of the
    same content. With `is_chosen` the user named an address of the registry, and no engine is asked.

    Raises ImageError if the registry has no such image, or another one.
    """
    found = ECR.fullmatch(address)
    if found is None:
        raise ImageError(f"{address}: expected an image in ECR", "dlc push ID --to ecr")
    repository = address[: found.end("repository")]
    stored = _list_stored(found["repository"], found["account"], found["region"])
    if found["digest"]:
        if found["digest"] not in {each.digest for each in stored}:
            raise _absence_error(address, stored)
        return f"{repository}@{found['digest']}"
    tag = found["tag"] or "latest"
    image = choose_image(tag, stored)
    if image is None:
        raise _absence_error(f"{repository}:{tag}", stored)
    key = "" if is_chosen else _read_local_key(local)
    return f"{repository}@{(_require_same(image, stored, key, repository, local) if key else image).digest}"


def _require_same(image: Stored, stored: Sequence[Stored], key: str, repository: str, local: str) -> Stored:
    """Return the image of this content key. Raises ImageError if the registry has only another one."""
    end = f"-{key[:KEY_DIGITS]}"
    for each in (image, *stored):
        if any(tag.endswith(end) for tag in each.tags):
            return each
    raise ImageError(
        f"{repository}: expected the image that this machine has as {local}, found another one: "
        f"{', '.join(image.tags)}",
        f"dlc push ID --to ecr, or --with image={repository}@{image.digest} to take that one",
    )


def choose_image(tag: str, stored: Sequence[Stored]) -> Stored | None:
    """Return the image under a tag; else the newest that `dlc push` has put there for this reference of dlc."""
    for image in stored:
        if tag in image.tags:
            return image
    found = OWN.fullmatch(tag)
    if not found:
        return None
    # dlc/pytorch:2.13-training-cpu-py311 is pushed as 2.13.0-training-cpu-py311-bookworm, and two tags that begin so.
    ours = re.compile(
        rf"{re.escape(found['series'])}(\.[0-9a-z]+)*-{re.escape(found['rest'])}-(?P<system>[a-z0-9._-]+?)"
        rf"(?P<set>-set-[0-9a-f]+)?(-[0-9]{{8}}|-[0-9a-f]{{12}})?"
    )
    wanted = found["set"]
    fitting = [
        image
        for image in stored
        if any((match := ours.fullmatch(each)) and match["set"] == wanted for each in image.tags)
    ]
    return max(fitting, key=lambda image: image.pushed, default=None)


def _list_stored(repository: str, account: str, region: str) -> list[Stored]:
    """Return the images of a repository. Raises ImageError if there is no such repository."""
    stored: list[Stored] = []
    token: dict[str, str] = {}
    while True:
        try:
            page = call_aws("ecr", "describe_images", region, registryId=account, repositoryName=repository, **token)
        except AwsError as error:
            if error.code == "RepositoryNotFoundException":
                raise ImageError(
                    f"{account}.dkr.ecr.{region}: expected the repository {repository}, found none",
                    "dlc push ID --to ecr, with AWS_REGION as the job's",
                ) from None
            raise
        stored += [
            Stored(each["imageDigest"], tuple(each.get("imageTags", ())), each.get("imagePushedAt"))
            for each in page["imageDetails"]
        ]
        if not page.get("nextToken"):
            return stored
        token = {"nextToken": page["nextToken"]}


def _absence_error(address: str, stored: Sequence[Stored]) -> ImageError:
    tags = sorted(tag for image in stored for tag in image.tags)
    shown = ", ".join(tags[:MOST_TAGS_SHOWN]) + (
        f" and {len(tags) - MOST_TAGS_SHOWN} more" if tags[MOST_TAGS_SHOWN:] else ""
    )
    return ImageError(
        f"{address}: expected an image that the registry has, found none; its tags: {shown or 'none'}",
        "dlc push ID --to ecr, or --with image=ADDRESS",
    )


def _read_local_key(reference: str) -> str:
    """Return the content key of this machine's image; empty without an engine, without the image or its label."""
    try:
        engine = find_engine()
        if engine is None:
            return ""
        answer = ask_engine(engine, "image", "inspect", "--format", f'{{{{index .Config.Labels "{KEY}"}}}}', reference)
    except (EngineError, ProcessError):
        return ""
    return answer.stdout.strip() if not answer.returncode else ""
