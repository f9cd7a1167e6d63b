"""dlc promote gives an image the tags that its signed provenance names, and no image another one's."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from hand_made_image import (
    STEM,
    attach,
    client,
    origin,
    outcome,
    prove,
    prove_index,
    put_image,
    put_index,
    scan,
)

from dlc.__main__ import main
from dlc.core.checkout import find_root
from dlc.core.errors import ImageError, ProofError
from dlc.proof.keys import PrivateKey
from dlc.proof.statement import PROVENANCE, SCAN, TESTS
from dlc.registry.client.repository import Repository
from harness.registry import Registry
from harness.signed_image import make_key

SET = "-set-0123abcd"
ARM = "linux/arm64"


@dataclass(frozen=True)
class Work:
    """Two places in one registry, a key, and a folder with the public one."""

    source: Repository
    target: Repository
    key: PrivateKey
    folder: Path
    registry: Registry

    def promote(self, image: str, *words: str) -> int:
        """Promote by the key."""
        places = [f"{self.registry.host}/{each.name.rpartition('/')[0]}" for each in (self.source, self.target)]
        key = ["--key", str(self.folder / "cosign.pub")]
        return main(["promote", image, "--from", places[0], "--to", places[1], *key, *words])


@pytest.fixture
def work(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Work:
    for name, value in registry.login(tmp_path / "docker-login").items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(find_root(Path(__file__).parent))
    name = "".join(each for each in request.node.name if each.isalnum())[-60:].lower()
    source, target = (client(registry, f"{name}/{place}/pytorch") for place in ("staging", "prod"))
    return Work(source, target, make_key(tmp_path), tmp_path, registry)


def test_a_signed_image_of_set_never_gets_the_plain_tags(
    work: Work, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = put_image(work.source, tmp_path, 1, suffix=SET)
    prove(work.source, image, work.key, suffix=SET)
    content = next(tag for tag in work.source.tags() if re.fullmatch(rf"{STEM}{SET}-[0-9a-f]{{12}}", tag))
    # Somebody who may push to staging gives it the tags of the plain image.
    for tag in (STEM, content.replace(SET, "")):
        work.source.put_manifest(tag, image)
        assert work.promote(f"pytorch:{tag}") == ProofError.exit_code
        assert f"name-of-another-image: expected pytorch:{content}" in capsys.readouterr().err
    assert work.target.tags() == []
    # Under its own name, and by its digest, it gets its own tags.
    for name in (f"pytorch:{STEM}{SET}", f"pytorch@{image.digest}"):
        assert work.promote(name, "--json") == 0
        assert json.loads(capsys.readouterr().out)["tags"][-1] == f"{STEM}{SET}"
    assert [tag for tag in work.target.tags() if SET not in tag and not tag.startswith("sha256-")] == []


def test_without_a_signed_provenance_nothing_says_the_tags(
    work: Work, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever may push to staging can also take the provenance away, or hang one of his own beside the scan."""
    image = put_image(work.source, tmp_path, 2)
    for kind, said in ((SCAN, scan()), (TESTS, outcome())):
        attach(work.source, image, kind, said, key=work.key)
    assert work.promote(f"pytorch:{STEM}") == ProofError.exit_code
    assert "provenance-missing" in capsys.readouterr().err
    attach(work.source, image, PROVENANCE, origin(work.source, image))
    assert work.promote(f"pytorch:{STEM}") == ProofError.exit_code
    assert "provenance-of-another-key" in capsys.readouterr().err
    assert work.target.tags() == []


def test_an_image_in_the_repository_of_another_framework_gets_no_tag_there(
    work: Work, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = put_image(work.source, tmp_path, 3)
    elsewhere = client(work.registry, work.source.name.replace("pytorch", "tensorflow"))
    put_image(elsewhere, tmp_path, 3)
    prove(work.source, image, work.key)
    for kind, said in ((PROVENANCE, origin(work.source, image)), (SCAN, scan()), (TESTS, outcome())):
        attach(elsewhere, image, kind, said, key=work.key)
    assert work.promote(f"tensorflow:{STEM}") == ProofError.exit_code
    assert f"found tensorflow:{STEM}" in capsys.readouterr().err
    assert work.promote(f"tensorflow@{image.digest}") == ImageError.exit_code
    assert "expected a provenance that names a tag of this repository, found none" in capsys.readouterr().err


def test_an_index_gives_no_tag_to_an_entry_of_no_platform(work: Work, tmp_path: Path) -> None:
    """Engines take no such entry for an image, so nobody judges it; its labels say whatever its author wants."""
    amd, arm = put_image(work.source, tmp_path, 4, tags=()), put_image(work.source, tmp_path, 5, platform=ARM)
    evil = put_image(work.source, tmp_path, 6, suffix=SET)
    index = put_index(work.source, [amd, arm, evil], (STEM,), ("linux/amd64", ARM, "unknown/unknown"))
    for image in (amd, arm):
        prove(work.source, image, work.key)
    prove_index(work.source, index, (STEM,), work.key)
    evil_tags = [tag for tag in work.source.tags() if SET in tag]
    # The image of arm64 has tags of its own, and so does what stands beside it.
    plain = put_image(work.source, tmp_path, 6, tags=(f"{STEM}-20261128",))
    assert plain.digest == evil.digest
    assert work.promote(f"pytorch:{STEM}") == 0
    assert work.target.any_manifest(STEM) == index
    arm_stem = STEM.replace("bookworm", "arm64-bookworm")
    assert work.target.any_manifest(arm_stem) == arm
    tags = {tag for tag in work.target.tags() if not tag.startswith("sha256-")}
    assert tags & {*evil_tags, f"{STEM}-20261128"} == set()


def test_the_first_promotion_says_what_it_copied_and_the_second_that_it_was_there(
    work: Work, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Within one registry no byte has to be sent, and yet the image was not there."""
    image = put_image(work.source, tmp_path, 7)
    documents = dict(zip(("provenance", "scan", "tests"), prove(work.source, image, work.key), strict=True))
    assert work.promote(f"pytorch:{STEM}") == 0
    out = capsys.readouterr().out
    assert re.search(rf"pytorch@{image.digest}  copied, the registry had all of its layers\n", out)
    assert "  attached to it: 3 documents\n" in out
    for name, digest in documents.items():
        assert re.search(rf"^    {name} +{digest}$", out, re.MULTILINE)
    assert "was there already" not in out
    assert work.promote(f"pytorch:{STEM}") == 0
    out = capsys.readouterr().out
    assert f"@{image.digest}  was there already\n" in out
    assert out.count("was there already") == 4
