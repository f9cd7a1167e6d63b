"""`dlc verify` outside the checkout that an image was built from: what is asked there, and what is said not to be."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from verify_shop import Shop

from dlc.core import checkout
from dlc.core.checkout import SourceFile, Tree
from dlc.core.errors import ProofError
from dlc.proof.statement import TESTS
from harness.signed_image import SignedImage, push_signed
from harness.specimen import TORCH_ID, changed, locked, specimen, unlocked, write_tree

NOT_COMPARED = "  not compared: the sources; run it in the checkout that the image was built from\n"
OTHER = changed(specimen(), "src/entrypoint/launcher.py", "print('another launcher')\n")
OWN_ID = f"{TORCH_ID}-demo"


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, shop: Shop) -> Path:
    """An empty folder as the current one."""
    assert shop.folder.is_dir()
    folder = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.usefixtures("elsewhere")
def test_without_a_checkout_all_is_asked_but_the_sources_and_that_is_said(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    push_signed(shop.repository, shop.key, SignedImage(tree=OTHER))
    assert shop.verify() == 0
    assert NOT_COMPARED in capsys.readouterr().out
    assert shop.verify("--json") == 0
    [found] = json.loads(capsys.readouterr().out)
    assert set(found["proven"]) == {"signature", "provenance", "name", "bill", "scan", "scanned by", "tests"}
    assert found["not_compared"] == {"the sources": "run it in the checkout that the image was built from"}


def test_tests_count_where_the_sources_do_not(shop: Shop, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    untested = {kind: said for kind, said in SignedImage().list_statements().items() if kind != TESTS}
    push_signed(shop.repository, shop.key, SignedImage(), untested)
    with pytest.raises(ProofError, match=r"refused\n  tests-missing: expected a signed tests"):
        shop.verify()
    (elsewhere / "policy.yml").write_text("require: [signature]\n")
    assert shop.verify("--policy", "policy.yml") == 0
    monkeypatch.chdir(shop.folder)
    assert shop.verify() == 0


@pytest.mark.usefixtures("elsewhere")
def test_an_image_of_changed_files_is_refused_without_a_checkout_too(shop: Shop) -> None:
    push_signed(shop.repository, shop.key, SignedImage(revision=f"{SignedImage().revision}-dirty"))
    with pytest.raises(ProofError, match="sources-changed"):
        shop.verify()


def test_a_policy_that_says_checkout_demands_it_wherever_it_is(shop: Shop, elsewhere: Path) -> None:
    push_signed(shop.repository, shop.key, SignedImage())
    (elsewhere / "policy.yml").write_text("sources: checkout\n")
    # The recipes of this dlc are others than the specimen's.
    with pytest.raises(ProofError, match="sources-differ"):
        shop.verify("--policy", "policy.yml")


@dataclass(frozen=True)
class Project:
    """The folder of a project, which is the current one, and all that its image is built from."""

    folder: Path
    tree: Tree


@pytest.fixture
def project(elsewhere: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project on the recipes of an installed dlc: those of the shop."""
    tree = locked({**unlocked(), "dlc.yml": SourceFile(f"name: demo\nfrom: {TORCH_ID}\npackages: [six]\n".encode())})
    own = {path: file for path, file in tree.items() if path == "dlc.yml" or path.startswith("locks/")}
    write_tree(own, elsewhere)
    monkeypatch.setattr(checkout, "OWN", shop.folder)
    return Project(elsewhere, tree)


def test_a_project_compares_its_own_image(shop: Shop, project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    own = SignedImage(tree=project.tree, id=OWN_ID)
    push_signed(shop.repository, shop.key, own)
    assert shop.verify(reference=shop.name(own.tags[-1])) == 0
    assert "  sources     the sources here give the same content key\n" in capsys.readouterr().out
    (project.folder / "dlc.yml").write_text(f"name: demo\nfrom: {TORCH_ID}\npackages: [six]\nenv: {{A: b}}\n")
    with pytest.raises(ProofError, match="sources-differ"):
        shop.verify(reference=shop.name(own.tags[-1]))


def test_a_project_says_nothing_of_a_released_image(
    shop: Shop, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    push_signed(shop.repository, shop.key, SignedImage(tree=OTHER))
    assert shop.verify() == 0
    assert NOT_COMPARED in capsys.readouterr().out
    assert project.folder == Path.cwd()


def test_a_projects_image_is_refused_under_the_name_of_the_released_one(shop: Shop, project: Project) -> None:
    own = SignedImage(tree=project.tree, id=OWN_ID)
    image = push_signed(shop.repository, shop.key, own)
    shop.repository.put_manifest(SignedImage().tags[-1], image)
    with pytest.raises(ProofError, match=r"name-of-another-image: expected pytorch:2\.13\.0-training-cpu-py311-demo-"):
        shop.verify()


def test_a_project_outside_git_is_known_by_its_content_key(
    shop: Shop, project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    own = SignedImage(tree=project.tree, id=OWN_ID, revision="unknown")
    push_signed(shop.repository, shop.key, own)
    assert shop.verify(reference=shop.name(own.tags[-1])) == 0
    monkeypatch.chdir(tmp_path_factory.mktemp("nowhere"))
    with pytest.raises(ProofError, match="sources-changed: expected an image of a commit, found sources unknown"):
        shop.verify(reference=shop.name(own.tags[-1]))
