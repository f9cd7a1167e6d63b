"""The lock of a project as uv resolves it, from wheels in a folder: what is added, or why released versions go."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import pytest

from dlc.buildspec.lockfile import ADDED, FILES, explain_staleness, join_entries, list_changes, read_entries
from dlc.buildspec.locks import resolve
from dlc.buildspec.locks.own_lock import OwnLock, make_own_lock
from dlc.buildspec.locks.resolve import make_request
from dlc.buildspec.matrix import load_variants
from dlc.core.checkout import SourceFile, Tree
from dlc.core.errors import LockError
from harness.specimen import TORCH_ID, unlocked

OWN_ID = f"{TORCH_ID}-demo"
WHEELS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("torch", "2.13.0+cpu"): (),
    ("transformers", "5.23.0"): ("tokens",),
    ("numpy", "2.4.6"): (),
    ("numpy", "2.0.0"): (),
    ("tokens", "1.0"): (),
    ("tokens", "2.0"): (),
    ("einops", "0.8.1"): ("numpy",),
    ("einops", "0.9.0"): ("numpy",),
    ("old-habits", "1.0"): ("older-habits",),
    ("older-habits", "1.0"): ("tokens<2",),
    ("other-torch", "1.0"): ("torch==1.0",),
}


@pytest.fixture
def released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """Recipes with the lock of one released image; the wheels lie in a folder, and there is nothing else."""
    for name in ("PIP_FIND_LINKS", "UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "index").mkdir()
    monkeypatch.setenv("UV_DEFAULT_INDEX", (tmp_path / "index").as_uri())
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    for (name, version), needs in WHEELS.items():
        write_wheel(tmp_path, name, version, needs)
    [variant] = load_variants(unlocked(), [TORCH_ID])
    return {**unlocked(), **as_files(variant.lock_folder, resolve.make_lock(resolve.make_request(variant)))}


def write_wheel(folder: Path, name: str, version: str, needs: tuple[str, ...]) -> None:
    stem = f"{name.replace('-', '_')}-{version}"
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *(f"Requires-Dist: {each}" for each in needs)]
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{stem}.dist-info/METADATA", "\n".join(lines))
        archive.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{stem}.dist-info/RECORD", "")


def as_files(folder: str, texts: Mapping[str, str]) -> Tree:
    return {f"{folder}/{name}": SourceFile(text.encode()) for name, text in texts.items()}


def lock(released: Tree, packages: str, *sets: str) -> tuple[OwnLock, Tree]:
    """The lock of a project with these packages, and the tree with it, in which it is fresh."""
    tree = {**released, "dlc.yml": SourceFile(f"name: demo\nfrom: {TORCH_ID}\npackages: [{packages}]\n".encode())}
    [variant] = load_variants(tree, [OWN_ID], sets)
    assert variant.base
    near = variant.plain if variant.plain and variant.plain.lock_folder != variant.lock_folder else variant.base
    request = make_request(variant, join_entries(tree, near))
    made = make_own_lock(request, variant, variant.base, tree)
    tree |= as_files(variant.lock_folder, made.texts)
    assert explain_staleness(tree, variant) == ""
    assert list_changes(tree, variant) == list(made.changed)
    return made, tree


def test_what_is_only_added_has_a_file_of_its_own_beside_the_released_lock(released: Tree) -> None:
    made, tree = lock(released, "einops==0.8.1")
    assert made.added == {"einops": "0.8.1"}
    base, own = load_variants(tree, [TORCH_ID, OWN_ID])
    assert {**read_entries(tree, base), ADDED: read_entries(tree, own)[ADDED]} == read_entries(tree, own)
    assert made.texts[ADDED].count("--hash=sha256:") == 1


def test_without_a_version_the_newest_that_goes_with_the_released_ones_is_added(released: Tree) -> None:
    made, _ = lock(released, "einops, numpy")
    assert made.added == {"einops": "0.9.0"}


def test_another_version_of_what_is_released_locks_all_anew_and_says_so(released: Tree) -> None:
    made, _ = lock(released, "numpy==2.0.0, einops")
    assert list(made.texts) == list(FILES)
    assert made.changed == ("numpy 2.4.6 -> 2.0.0: dlc.yml asks for numpy==2.0.0",)
    assert "numpy==2.0.0" in made.texts["training.txt"]


def test_a_released_version_that_an_added_package_cannot_have_is_named_with_the_way_to_it(released: Tree) -> None:
    made, _ = lock(released, "old-habits==1.0")
    assert made.changed == (
        "tokens 2.0 -> 1.0: dlc.yml asks for old-habits==1.0, which needs older-habits==1.0, which needs tokens==1.0",
    )


def test_a_package_that_the_image_compiles_is_in_layers_of_its_own(released: Tree, tmp_path: Path) -> None:
    about = b"Metadata-Version: 2.2\nName: built-here\nVersion: 1.0\n"
    project = b"[build-system]\nrequires = []\nbuild-backend = 'none'\n"
    with tarfile.open(tmp_path / "built_here-1.0.tar.gz", "w:gz") as archive:
        for name, data in {"PKG-INFO": about, "pyproject.toml": project}.items():
            entry = tarfile.TarInfo(f"built_here-1.0/{name}")
            entry.size = len(data)
            archive.addfile(entry, BytesIO(data))
    made, _ = lock(released, "built-here==1.0", "packages.source=[built-here]")
    assert made.changed == ("built-here: it is compiled here",)
    assert ADDED not in made.texts


def test_what_has_no_solution_at_all_is_an_error(released: Tree) -> None:
    with pytest.raises(LockError, match="other-torch"):
        lock(released, "other-torch==1.0")
