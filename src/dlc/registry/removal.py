"""Removes from a repository what a retention policy chose, and nothing that anything else leads to.

Whoever may push may write any digest into the list of an image's documents, and give any tag to anything. A registry
removes a manifest with all of its tags. So each manifest is looked at before it goes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dlc.registry.client.repository import Repository
from dlc.registry.prune import Choice, Say, list_members, read_any
from dlc.registry.referrers import OF_DOCUMENT, is_about, is_document

# For so long it is not asked again what each tag means: somebody may push while images are removed.
FRESH_SECONDS = 5.0


@dataclass(frozen=True)
class Meaning:
    """What a tag means, and the digests of all that it leads to."""

    tag: str
    digest: str
    leads_to: frozenset[str]
    # The digest of the image that this is a document about; empty for an image.
    about: str


def remove(repository: Repository, choices: Sequence[Choice], say: Say) -> list[str]:
    """Remove what was chosen, documents first; return the digests and tags that are gone.

    An image that a tag has moved to meanwhile stays.
    """
    gone = []
    meanings, read = list(_read_meanings(repository)), time.monotonic()
    for choice in (choice for choice in choices if choice.remove):
        if time.monotonic() - read > FRESH_SECONDS:
            meanings, read = list(_read_meanings(repository)), time.monotonic()
        is_gone = _remove_one(repository, choice, meanings, say)
        meanings = [each for each in meanings if not (is_gone and each.digest == choice.name)]
        if is_gone:
            gone.append(choice.name)
            say(f"removed {choice.name}  {' '.join(choice.tags)}")
    return gone


def _read_meanings(repository: Repository) -> Iterator[Meaning]:
    for tag in repository.tags():
        if found := read_any(repository, tag):
            match = OF_DOCUMENT.fullmatch(tag)
            about = f"sha256:{match[1]}" if match and is_document(found) else ""
            entries = (str(entry["digest"]) for entry in found.content.get("manifests", ()))
            members = entries if about else list_members(repository, found)
            yield Meaning(tag, found.digest, frozenset(members), about)


def _remove_one(repository: Repository, choice: Choice, meanings: Sequence[Meaning], say: Say) -> bool:
    """Remove an image and its documents, or the documents under a tag; tell whether they are gone."""
    own = [each for each in meanings if each.tag in choice.tags and each.digest == choice.name]
    is_image = choice.name.startswith("sha256:")
    image = choice.name if is_image else next((each.about for each in meanings if each.tag == choice.name), "")
    documents = [each for each in meanings if each.about == image and (is_image or each.tag == choice.name)]
    others = [each for each in meanings if each not in own and each not in documents]
    if is_image:
        if why := _explain_use(choice.name, others):
            say(f"{choice.name} stays: {why}")
            return False
    elif not image or read_any(repository, image):
        say(f"{choice.name} stays: it is no document about an image that is gone")
        return False
    listed = [str(entry["digest"]) for entry in repository.referrers(image)] if is_image else []
    for digest in dict.fromkeys((*listed, *(digest for each in documents for digest in each.leads_to))):
        _remove_document(repository, digest, image, others, say)
    for each in documents:
        if why := _explain_use(each.digest, others):
            say(f"{each.tag} stays: {why}")
        else:
            repository.delete(each.digest)
    if is_image:
        repository.delete(choice.name)
    return True


def _remove_document(repository: Repository, digest: str, image: str, others: Sequence[Meaning], say: Say) -> None:
    """Remove what is listed as a document about an image, if it says so itself and nothing else leads to it."""
    found = read_any(repository, digest)
    if found is None:
        return
    if not is_about(found, image):
        say(f"{digest} stays: it is listed as a document about {image}, and is not about it")
    elif why := _explain_use(digest, others):
        say(f"{digest} stays: {why}")
    else:
        repository.delete(digest)


def _explain_use(digest: str, others: Sequence[Meaning]) -> str:
    """Tell which tag means a manifest, or leads to it; empty if there is none."""
    for each in others:
        if each.digest == digest:
            return f"{each.tag} means it now"
        if digest in each.leads_to:
            return f"{each.tag} leads to it"
    return ""
