"""dlc build's builder for real: a second engine or a buildkitd, a cache in a registry, a builder that dies."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlc.core import labels
from dlc.core.errors import DlcError, EngineError, RegistryError
from dlc.engine.builders import find_builder
from dlc.image_build.bake_file import Caches
from harness import tiny_build
from harness.engine import HANG_BOUND
from harness.far_builder import COSTLY, KINDS, NAME, Far, SecondEngine, list_steps, open_builder
from harness.ports import free_port

pytestmark = pytest.mark.integration


@pytest.fixture(params=KINDS)
def far(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Far]:
    """A builder of each kind. For an engine, `engine` installs what one is made of."""
    if request.param == "dockerd":
        request.getfixturevalue("engine")
    with open_builder(request.param, tmp_path) as found:
        yield found


def steps(log: str) -> dict[str, bool]:
    """Whether each step of the Dockerfile was taken from a cache: one whose layer comes from afar is extracted."""
    numbers, cached = {}, set()
    for line in log.splitlines():
        number, _, rest = line.partition(" ")
        if rest.startswith("["):
            numbers[number] = rest.partition("] ")[2]
        elif rest == "CACHED" or rest.startswith("extracting sha256:"):
            cached.add(number)
    return {command: number in cached for number, command in numbers.items()}


def cache(far: Far) -> Caches:
    word = f"type=registry,ref={far.registry.host}/cache/tiny:{{image}}"
    return Caches((word,), (f"{word},mode=max",))


def test_a_changed_launcher_is_rebuilt_elsewhere_by_the_cache_alone(far: Far) -> None:
    first = far.build("team", "first", cache(far))
    assert steps(first)[COSTLY] is False
    image = far.repository("team").manifest("moving")
    assert image
    far.forget()
    second = far.build("team", "second", cache(far))
    assert steps(second)[COSTLY] is True
    again = far.repository("team").manifest("moving")
    assert again
    assert again.content["layers"][:-1] == image.content["layers"][:-1]
    assert again.content["layers"][-1] != image.content["layers"][-1]


@pytest.mark.parametrize("far", ["dockerd"], indirect=True)
def test_an_image_is_pulled_by_its_digest_from_where_it_was_pushed(far: SecondEngine) -> None:
    far.build("team", "first")
    image = far.repository("team").manifest("moving")
    assert image
    far.forget()
    name = f"{far.registry.host}/team/tiny@{image.digest}"
    far.docker("pull", "--quiet", name)
    said = json.loads(far.docker("image", "inspect", name))
    assert said[0]["Config"]["Labels"][labels.KEY] == "first"


def test_a_builder_that_dies_in_the_middle_is_one_error_and_moves_no_tag(far: Far) -> None:
    failed: list[DlcError] = []

    def build() -> None:
        try:
            far.build("dead", "first", code=tiny_build.WAITS)
        except DlcError as error:
            failed.append(error)

    work = threading.Thread(target=build)
    work.start()
    deadline = time.monotonic() + HANG_BOUND
    while not list_steps():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    far.kill()
    work.join(HANG_BOUND)
    assert not work.is_alive()
    assert len(failed) == 1
    assert failed[0].remedy
    assert far.repository("dead").tags() == []
    far.start()
    far.build("dead", "second")
    assert "moving" in far.repository("dead").tags()


def test_a_cache_with_other_bytes_than_its_digests_gets_into_no_image(far: Far) -> None:
    far.build("honest", "first", cache(far))
    honest = far.repository("honest").manifest("moving")
    assert honest
    far.forget()
    for layer in honest.content["layers"]:
        path = far.registry.blob(layer["digest"])
        path.write_bytes(bytes(len(path.read_bytes())))
    try:
        far.build("liar", "second", Caches(cache(far).sources))
    except DlcError:
        assert far.repository("liar").tags() == [] or "moving" not in far.repository("liar").tags()
    else:
        made = far.repository("liar").manifest("moving")
        assert made
        assert not any(
            far.registry.blob(layer["digest"]).read_bytes().strip(b"\0") == b"" for layer in made.content["layers"]
        )


def test_a_cache_that_is_gone_is_one_error_if_it_is_written_and_none_if_it_is_read(far: Far) -> None:
    word = f"type=registry,ref=127.0.0.1:{free_port('127.0.0.1')}/cache/tiny"
    with pytest.raises(RegistryError, match="a registry does not answer, or refuses"):
        far.build("gone", "first", Caches((), (f"{word},mode=max",)))
    assert "moving" not in far.repository("gone").tags()
    far.build("gone", "first", Caches((word,)))
    assert "moving" in far.repository("gone").tags()


def test_nobody_at_a_builders_address_is_one_error_that_names_it(far: Far) -> None:
    far.kill()
    with pytest.raises(
        EngineError, match=r"expected BuildKit to answer at unix:///\S+socket|Cannot connect to the Docker daemon at"
    ):
        find_builder(NAME)
