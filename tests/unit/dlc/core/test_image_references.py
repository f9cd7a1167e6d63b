"""Which registry a reference names: the one table, for `dlc push`, `dlc verify` and all places."""

from __future__ import annotations

import pytest

from dlc.core.image_references import is_reference, split_registry
from dlc.job.job_spec import JobSpec
from dlc.places.refusals import refuse_images
from dlc.places.sagemaker.request import locate_image
from dlc.places.slurm.script import _name_enroot
from harness.sagemaker_job import REGISTRY, job, settings

REFERENCES = {
    "registry.example/team/pytorch:2.13": ("registry.example", "team/pytorch:2.13"),
    "registry.example:5000/pytorch@sha256:00": ("registry.example:5000", "pytorch@sha256:00"),
    "registry:5000/pytorch": ("registry:5000", "pytorch"),
    "docker.io/library/debian:12": ("docker.io", "library/debian:12"),
    "localhost/pytorch": ("localhost", "pytorch"),
    "127.0.0.1:5000/pytorch": ("127.0.0.1:5000", "pytorch"),
    "[::1]:5000/pytorch": ("[::1]:5000", "pytorch"),
    f"{REGISTRY}/dlc/pytorch:2.13": (REGISTRY, "dlc/pytorch:2.13"),
    # Of Docker Hub, or of this machine's engine.
    "dlc/pytorch:2.13-training-cpu-py311": ("", "dlc/pytorch:2.13-training-cpu-py311"),
    "team/pytorch:2.13": ("", "team/pytorch:2.13"),
    "debian:12": ("", "debian:12"),
    "registry.example": ("", "registry.example"),
    "localhost": ("", "localhost"),
    # No name of a registry.
    "registry.example:99999/pytorch": ("", "registry.example:99999/pytorch"),
    "registry.example:0/pytorch": ("", "registry.example:0/pytorch"),
    "a..b/pytorch": ("", "a..b/pytorch"),
    "oras://registry.example/pytorch": ("", "oras://registry.example/pytorch"),
    "/images/pytorch.sqsh": ("", "/images/pytorch.sqsh"),
    "./pytorch.sqsh": ("", "./pytorch.sqsh"),
    "": ("", ""),
}


@pytest.mark.parametrize("reference", REFERENCES)
def test_the_registry_is_found_by_dockers_rule(reference: str) -> None:
    assert split_registry(reference) == REFERENCES[reference]


@pytest.mark.parametrize("reference", [each for each in REFERENCES if "/" in each and ".sqsh" not in each])
def test_places_ask_for_an_image_that_is_not_this_machines_and_name_it_by_the_same_rule(reference: str) -> None:
    registry, rest = REFERENCES[reference]
    refused = list(refuse_images([(("image",), reference)]))
    assert [each.found for each in refused] == ([] if registry else [reference])
    assert _name_enroot(reference) == (f"{registry}#{rest}" if registry else reference)
    spec: JobSpec = job(image=reference)
    assert locate_image(spec, settings()) == (reference if registry else f"{REGISTRY}/{reference}")


@pytest.mark.parametrize(
    ("word", "expected"),
    [("pytorch-2.13-training-cpu-py311", False), ("debian:12", True), ("dlc/pytorch", True), ("x@sha256:00", True)],
)
def test_an_identifier_of_an_image_is_no_reference(word: str, expected: bool) -> None:
    assert is_reference(word) is expected
