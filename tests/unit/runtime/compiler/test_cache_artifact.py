"""A cache as one file: the same bytes for the same code, and refused by name if it is foreign or one byte differs."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dlc_runtime.compiler.cache import artifact, cache_digests, cache_folder, machine
from dlc_runtime.compiler.cache.artifact import ArtifactError, pack, take
from harness.compile_cache import KEY

OURS = "0123456789ab-x86_64-0c1d2e3f4a5b-cpu"
FILES = {"ab/code.so": b"machine code", "fxgraph/cd/graph": b"a pickle", "decisions/ef.json": b"{}"}


def write_cache(folder: Path) -> str:
    for path, content in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    (folder / ".in-use").touch()
    (folder / "locks").mkdir(exist_ok=True)
    (folder / "locks/held.lock").touch()
    cache_digests.note_digests(str(folder))
    return str(folder)


def packed(tmp_path: Path, key: str = OURS) -> str:
    """Return the reference of an artefact of three files."""
    file = tmp_path / "compiled.tar.gz"
    return f"{file}@sha256:{pack(write_cache(tmp_path / 'made'), key, str(file))}"


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_another_folder_gets_the_same_files_and_nothing_else_of_the_host(tmp_path: Path) -> None:
    reference, fresh = packed(tmp_path), tmp_path / "fresh"
    fresh.mkdir()
    assert take(reference, str(fresh), OURS) == len(FILES)
    assert files_below(fresh) == FILES


def test_the_same_code_is_the_same_file(tmp_path: Path) -> None:
    write_cache(tmp_path / "a"), write_cache(tmp_path / "b")
    one, other = (pack(str(tmp_path / name), OURS, str(tmp_path / f"{name}.tar.gz")) for name in "ab")
    assert one == other


@pytest.mark.parametrize(
    ("theirs", "named"),
    [
        ("fedcba987654-x86_64-0c1d2e3f4a5b-cpu", "another image: expected 0123456789ab, found fedcba987654"),
        ("0123456789ab-x86_64-ffffffffffff-cpu", "another processor: expected 0c1d2e3f4a5b, found ffffffffffff"),
        ("0123456789ab-x86_64-0c1d2e3f4a5b-aaaaaaaaaaaa", "another GPU: expected cpu, found aaaaaaaaaaaa"),
        ("0123456789ab-aarch64-0c1d2e3f4a5b-cpu", "another architecture: expected x86_64, found aarch64"),
    ],
)
def test_foreign_code_is_refused_and_what_differs_is_named(tmp_path: Path, theirs: str, named: str) -> None:
    assert_refused(packed(tmp_path, theirs), tmp_path, named)


def assert_refused(reference: str, tmp_path: Path, named: str) -> None:
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    with pytest.raises(ArtifactError) as fault:
        take(reference, str(fresh), OURS)
    assert named in str(fault.value)
    assert files_below(fresh) == {}


def test_a_changed_byte_is_refused_before_anything_is_unpacked(tmp_path: Path) -> None:
    reference = packed(tmp_path)
    file = tmp_path / "compiled.tar.gz"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert_refused(reference, tmp_path, "expected sha256:")


@pytest.mark.parametrize("reference", ["compiled.tar.gz", "compiled.tar.gz@sha256:12", "@sha256:" + "0" * 64])
def test_a_reference_without_a_digest_is_refused(tmp_path: Path, reference: str) -> None:
    assert_refused(reference, tmp_path, "expected FILE@sha256: and 64 digits")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert_refused(f"{tmp_path}/none@sha256:{'0' * 64}", tmp_path, "found no file that can be read")


def made_by_hand(tmp_path: Path, write: Callable[[tarfile.TarFile], None]) -> str:
    file = tmp_path / "by-hand.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        write(archive)
    return f"{file}@sha256:{cache_digests.file_digest(str(file))}"


def add(archive: tarfile.TarFile, name: str, content: bytes, **more: object) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    for field, value in more.items():
        setattr(entry, field, value)
    archive.addfile(entry, io.BytesIO(content))


def manifest_of(files: dict[str, str]) -> bytes:
    return json.dumps({"format": artifact.FORMAT, "key": OURS, "files": files}).encode()


@pytest.mark.parametrize(
    ("name", "more", "named"),
    [
        ("../escapes", {}, "is not in its manifest"),
        ("/tmp/absolute", {}, "is not in its manifest"),
        ("a/link", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd", "size": 0}, "is not in its manifest"),
        ("ab/code", {}, "is not as its manifest says"),
    ],
)
def test_what_a_manifest_names_but_does_not_hold_is_refused(
    tmp_path: Path, name: str, more: dict[str, object], named: str
) -> None:
    def write(archive: tarfile.TarFile) -> None:
        add(archive, artifact.MANIFEST, manifest_of({name: "0" * 64}))
        add(archive, name, b"code", **more)

    assert_refused(made_by_hand(tmp_path, write), tmp_path, named)


def test_files_beside_the_manifest_and_files_that_are_missing_are_refused(tmp_path: Path) -> None:
    def write(archive: tarfile.TarFile) -> None:
        add(archive, artifact.MANIFEST, manifest_of({"ab/code": "0" * 64}))

    assert_refused(made_by_hand(tmp_path, write), tmp_path, "1 files of its manifest are missing, such as ab/code")


def test_what_is_no_artefact_is_refused(tmp_path: Path) -> None:
    assert_refused(made_by_hand(tmp_path, lambda archive: add(archive, "x", b"")), tmp_path, "as its first entry")


def test_a_job_takes_an_artefact_without_a_cache_of_its_own(tmp_path: Path) -> None:
    key = machine.key_of(KEY)
    reference = packed(tmp_path, key)
    environ = {artifact.ARTIFACT: reference, **KEY}
    held = cache_folder.use_cache(environ)
    found = files_below(Path(held["folder"]))
    assert {path: found[path] for path in FILES} == FILES
    assert held["warnings"] == []
    assert cache_digests.delete_damaged(held["folder"], alone=True) == []


def test_a_job_says_why_an_artefact_is_not_used_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environ = {artifact.ARTIFACT: packed(tmp_path), "DLC_COMPILE_CACHE": str(tmp_path / "cache"), **KEY}
    held = cache_folder.use_cache(environ)
    assert "is not used, this job compiles anew: " in held["warnings"][0]
    assert "another processor" in capsys.readouterr().err
    assert set(files_below(Path(held["folder"]))) <= {".in-use"}
