"""What `docker image inspect` and `docker history` say of each image: entrypoint, labels, layers, and no secret."""

from __future__ import annotations

import re

import pytest

from dlc.core.checkout import find_workspace
from dlc.core.labels import CREATED, KEY, LICENSES, REVISION, VERSION
from dlc.image_build.buildx import read_revision
from harness.engine import docker
from harness.images import Image

pytestmark = pytest.mark.container

COMMIT = r"[0-9a-f]{40}(-dirty)?"
ENTRYPOINT = ["/usr/bin/tini", "--", "/usr/bin/python3", "-I", "-S", "/opt/dlc/entrypoint/launcher.py"]
# Names of variables and options that carry a secret or point into the network of the host that built the image.
SECRETIVE = re.compile(
    r"(https?|ftp|all|no)_proxy|password|passwd|token|secret_|api_?key|://[^/\s]*@|index_url=|find_links=(?!/wheels)",
    re.I,
)


def test_the_entrypoint_is_the_launcher_below_tini(image: Image) -> None:
    assert image.inspected["Config"]["Entrypoint"] == ENTRYPOINT
    assert image.inspected["Config"]["Cmd"] == ["train"]


def test_labels_are_those_of_the_plan(image: Image) -> None:
    labels = image.inspected["Config"]["Labels"]
    assert dict(image.target.labels).items() <= labels.items()
    assert labels[KEY] == image.target.key


def test_labels_say_version_revision_time_and_licence(image: Image) -> None:
    labels = image.inspected["Config"]["Labels"]
    assert labels[VERSION]
    assert labels[LICENSES].startswith("Apache-2.0 AND ")
    # Of a wheel, or of a project that is no git checkout, it is a word
    known, _ = read_revision(find_workspace().root)
    assert re.fullmatch(COMMIT if re.fullmatch(COMMIT, known) else re.escape(known), labels[REVISION])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", labels[CREATED])


def test_the_image_is_for_the_planned_platform(image: Image) -> None:
    assert (image.inspected["Os"], image.inspected["Architecture"]) == ("linux", image.variant.platform.architecture)


def test_the_environment_is_what_user_code_needs_and_no_more(image: Image) -> None:
    names = {entry.partition("=")[0] for entry in image.inspected["Config"]["Env"]}
    assert names >= {"PATH", "LANG"}
    assert not [entry for entry in image.inspected["Config"]["Env"] if SECRETIVE.search(entry)]


def test_the_history_shows_no_secret_and_no_proxy(image: Image) -> None:
    history = docker("history", "--no-trunc", "--format", "{{.CreatedBy}}", image.ref).stdout
    assert "launcher.py" in history
    assert not SECRETIVE.search(history), SECRETIVE.search(history)


def test_the_launcher_comes_last_and_is_small(image: Image) -> None:
    """A change to the launcher rebuilds and transfers this much and no more; a project's layers lie above it."""
    rows = docker("history", "--no-trunc", "--human=false", "--format", "{{.Size}}\t{{.CreatedBy}}", image.ref).stdout
    layers = [row.split("\t", 1) for row in rows.splitlines()]
    launcher, library = [index for index, (_, step) in enumerate(layers) if step.startswith("COPY /image/ /")]
    above = launcher if image.variant.base else 0
    sizes = [sum(int(size) for size, _ in layers[above : index + 1]) for index in (launcher, library)]  # newest first
    assert sizes[0] < 2_500_000, sizes
    assert sizes[1] < 5_000_000, sizes


@pytest.mark.when(device="cu*")
def test_a_gpu_host_hands_its_gpus_to_an_image_with_cuda_and_asks_for_its_major_version_alone(image: Image) -> None:
    environment = dict(entry.split("=", 1) for entry in image.inspected["Config"]["Env"])
    assert environment["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert environment["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
    assert environment["NVIDIA_REQUIRE_CUDA"] == f"cuda>={image.variant.settings.device[2:-1]}.0"


@pytest.mark.when(device="cpu")
def test_an_image_without_cuda_asks_for_no_gpu(image: Image) -> None:
    assert not [entry for entry in image.inspected["Config"]["Env"] if entry.startswith(("NVIDIA_", "LD_LIBRARY_PATH"))]
