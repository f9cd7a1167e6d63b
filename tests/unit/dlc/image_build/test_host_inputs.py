"""image_build.host_inputs: what a build takes from the host, without any secret's value."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from uv import find_uv_bin

from dlc.buildspec.lockfile import FILES, with_headers
from dlc.core import environment
from dlc.core.checkout import SourceFile, Tree
from dlc.core.environment import CA_VARIABLES, INDEX_VARIABLES
from dlc.core.errors import LockError
from dlc.image_build import host_inputs, wheels
from dlc.image_build.wheels import link_or_copy
from dlc.plan.contexts import Host, Repo
from dlc.plan.plan import Plan, make_plan
from dlc.plan.targets import UV_LOCK, Target
from harness.specimen import specimen

CA = Host("ca")

DOCKERFILE = """FROM base
RUN --mount=type=secret,id=index_url --mount=type=secret,id=netrc \\
    true
"""


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for names in (*INDEX_VARIABLES.values(), ("UV_FIND_LINKS", "PIP_FIND_LINKS"), CA_VARIABLES):
        for name in names:
            monkeypatch.delenv(name, raising=False)
    return monkeypatch


WHEELS = Host("wheels", locks=("locks/framework.txt",))


def tree_with_lock(lock: str) -> Tree:
    return {"locks/framework.txt": SourceFile(lock.encode()), "Dockerfile": SourceFile(DOCKERFILE.encode())}


def collected(lock: str, folder: Path) -> host_inputs.HostInputs:
    target = Target("t", "Dockerfile", Repo("locks"), contexts={"wheels": WHEELS, "ca": CA})
    return host_inputs.collect(Plan((target,), ("t",)), tree_with_lock(lock), folder / "cache")


def test_a_build_takes_the_uv_of_the_recipes_whatever_uv_this_host_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    uv = Host("uv", "0.13.8")
    plan = Plan((Target("t", "Dockerfile", Repo("locks"), contexts={"uv": uv}),), ("t",))
    tree = {**tree_with_lock(""), UV_LOCK: SourceFile(b"uv==0.13.8 \\\n    --hash=sha256:00\n")}
    monkeypatch.setattr(wheels, "fetch_uv", lambda lock, platform, _: f"{lock.split()[0]} {platform.name}".encode())
    monkeypatch.setattr(host_inputs, "version", lambda _: "0.13.9")
    found = host_inputs.collect(plan, tree, tmp_path).contexts[uv]
    assert [(path.name, path.read_text()) for path in found.iterdir()] == [("uv", "uv==0.13.8 linux/amd64")]
    said = "uv 0.13.9 is installed; images are made with uv 0.13.8, which a build fetches by its hash"
    assert capsys.readouterr().err == f"dlc: warning: {said}\n  remedy: pip install uv==0.13.8\n"
    monkeypatch.setattr(host_inputs, "version", lambda _: "0.13.8")
    assert host_inputs.explain_other_uv(tree) == ""
    own = host_inputs.collect(plan, tree, tmp_path).contexts[uv] / "uv"
    assert (own.read_bytes(), capsys.readouterr().err) == (Path(find_uv_bin()).read_bytes(), "")


def test_a_build_gets_the_hosts_authorities_and_only_the_secrets_that_the_host_has(
    tmp_path: Path, clean: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.pem").write_text("CERTIFICATE")
    (tmp_path / "netrc").write_text("machine m password hunter2")
    clean.setenv("NETRC", str(tmp_path / "nothing"))
    clean.setattr(environment, "SYSTEM_BUNDLE", tmp_path / "nothing")
    assert not any(collected("one==1.0\n", tmp_path).contexts[CA].iterdir())
    clean.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    clean.setenv("NETRC", str(tmp_path / "netrc"))
    found = collected("one==1.0\n", tmp_path)
    assert (found.contexts[CA] / "ca.pem").read_text() == "CERTIFICATE"
    [recipe] = found.dockerfiles.values()
    assert recipe.read_text() == DOCKERFILE.replace("--mount=type=secret,id=index_url", "")


def test_a_step_runs_again_for_other_entries_of_its_lock_and_for_nothing_else_that_the_lock_is_made_from(
    tmp_path: Path, clean: pytest.MonkeyPatch
) -> None:
    def given(digest: str, entry: str) -> Path:
        lock = with_headers(digest, {**dict.fromkeys(FILES, ""), "framework.txt": entry})
        return collected(lock["framework.txt"], tmp_path).contexts[Repo("locks")]

    folder = given("sha256:one", "one==1.0\n")
    assert folder == given("sha256:two", "one==1.0\n")
    assert folder != given("sha256:one", "one==1.1\n")
    assert (folder / "framework.txt").read_text() == "one==1.0\n"


def test_locked_wheel_of_a_local_folder_is_handed_over(tmp_path: Path, clean: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "links/my_pkg-1.0+cpu-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(b"wheel")
    (wheel.parent / "other-2.0-py3-none-any.whl").write_bytes(b"other")
    clean.setenv("PIP_FIND_LINKS", str(wheel.parent))
    digest = hashlib.sha256(b"wheel").hexdigest()
    lock = f"my-pkg==1.0+cpu --hash=sha256:{digest}\n"
    folder = collected(lock, tmp_path).contexts[WHEELS]
    assert [path.name for path in folder.iterdir()] == [wheel.name]


def test_a_wheel_that_was_damaged_in_the_cache_is_taken_from_its_folder_again(
    tmp_path: Path, clean: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = tmp_path / "links/my_pkg-1.0+cpu-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(b"wheel")
    clean.setenv("PIP_FIND_LINKS", str(wheel.parent))
    lock = f"my-pkg==1.0+cpu --hash=sha256:{hashlib.sha256(b'wheel').hexdigest()}\n"
    kept = collected(lock, tmp_path).contexts[WHEELS] / wheel.name
    kept.unlink()
    kept.write_bytes(b"whee1")
    (kept.parent / "planted-1.0-py3-none-any.whl").write_bytes(b"planted")
    folder = collected(lock, tmp_path).contexts[WHEELS]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {wheel.name: b"wheel"}
    assert capsys.readouterr().err.count("not as it was written; made anew") == 2


def test_what_a_build_takes_has_the_same_modes_whatever_the_umask_is(tmp_path: Path, clean: pytest.MonkeyPatch) -> None:
    (tmp_path / "ca.pem").write_text("CERTIFICATE")
    clean.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    before = os.umask(0o077)
    try:
        wheel = tmp_path / "links/my_pkg-1.0+cpu-py3-none-any.whl"
        wheel.parent.mkdir()
        wheel.write_bytes(b"wheel")
        clean.setenv("PIP_FIND_LINKS", str(wheel.parent))
        found = collected(f"my-pkg==1.0+cpu --hash=sha256:{hashlib.sha256(b'wheel').hexdigest()}\n", tmp_path)
    finally:
        os.umask(before)
    for folder in found.contexts.values():
        modes = {path.name: oct(path.stat().st_mode & 0o777) for path in (folder, *folder.iterdir())}
        assert modes.pop(folder.name) == "0o755"
        assert set(modes.values()) <= {"0o644"}, modes


def test_wheels_of_one_version_for_two_pythons_are_both_handed_over(tmp_path: Path, clean: pytest.MonkeyPatch) -> None:
    links = tmp_path / "links"
    links.mkdir()
    names = ["my_pkg-1.0+cpu-cp311-cp311-linux_x86_64.whl", "my_pkg-1.0+cpu-cp313-cp313-linux_x86_64.whl"]
    for name in names:
        (links / name).write_bytes(name.encode())
    clean.setenv("UV_FIND_LINKS", str(links))
    hashes = " ".join(f"--hash=sha256:{hashlib.sha256(name.encode()).hexdigest()}" for name in names)
    folder = collected(f"my-pkg==1.0+cpu {hashes}\n", tmp_path).contexts[WHEELS]
    assert sorted(path.name for path in folder.iterdir()) == names


def test_a_file_that_only_ends_like_a_wheel_is_passed_over(tmp_path: Path, clean: pytest.MonkeyPatch) -> None:
    (tmp_path / "links").mkdir()
    for name in ("latest.whl", "my_pkg-1.0.whl"):
        (tmp_path / "links" / name).write_bytes(b"")
    clean.setenv("UV_FIND_LINKS", str(tmp_path / "links"))
    folder = collected(f"my-pkg==1.0 --hash=sha256:{'0' * 64}\n", tmp_path).contexts[WHEELS]
    assert list(folder.iterdir()) == []


def test_local_wheel_with_another_hash_is_refused_before_the_build(tmp_path: Path, clean: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "links/my_pkg-1.0+cpu-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(b"tampered")
    clean.setenv("UV_FIND_LINKS", str(wheel.parent))
    lock = f"my-pkg==1.0+cpu --hash=sha256:{'0' * 64}\n"
    with pytest.raises(LockError, match="sha256 is not the one in the lock"):
        collected(lock, tmp_path)


def test_local_version_that_no_folder_and_no_index_has_is_said_before_the_build(
    tmp_path: Path, clean: pytest.MonkeyPatch
) -> None:
    lock = f"my-pkg==1.0+cpu --hash=sha256:{'0' * 64}\n"
    with pytest.raises(LockError, match=r"my-pkg==1\.0\+cpu: a local version"):
        collected(lock, tmp_path)
    clean.setenv("UV_INDEX", "https://index/cpu")
    assert collected(lock, tmp_path).contexts[WHEELS].is_dir()


def test_builds_at_the_same_time_put_the_same_wheel_in_place_whole(tmp_path: Path) -> None:
    wheel, target = tmp_path / "my_pkg-1.0-py3-none-any.whl", tmp_path / "wheels/locked/my_pkg-1.0-py3-none-any.whl"
    wheel.write_bytes(b"wheel" * 10_000)
    target.parent.mkdir(parents=True)
    with ThreadPoolExecutor(8) as pool:  # a second link to the same file is no error
        for done in [pool.submit(link_or_copy, wheel, target, tmp_path) for _ in range(40)]:
            done.result()
    assert target.read_bytes() == wheel.read_bytes()
    assert [path.name for path in target.parent.iterdir()] == [wheel.name]
    assert not any((tmp_path / "drafts").iterdir())


@pytest.mark.parametrize(("base", "asked"), [("", 1), ("debian:12", 0)])
def test_mmdebstrap_is_installed_only_for_images_on_our_own_base(
    base: str, asked: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed: list[Path] = []
    monkeypatch.setattr(host_inputs.rootfs, "require_program", installed.append)
    sets = (f"base.image={base}",) if base else ()
    host_inputs.install_programs(make_plan(specimen(), ["pytorch-*"], sets), tmp_path)
    assert installed == [tmp_path] * asked
