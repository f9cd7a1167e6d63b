"""engine: which engine is chosen, and what is refused, told without starting one."""

from __future__ import annotations

import errno
import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dlc.core.digests import seal
from dlc.core.errors import EngineError
from dlc.debian import rootfs, suites
from dlc.engine.connection import connect, find_engine
from dlc.engine.private_engine import DAEMON_CONFIG, PrivateEngine, read_kept_store


def test_a_shell_that_names_the_private_engine_may_start_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLC_ENGINE_DIR", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", PrivateEngine(tmp_path).address)
    assert find_engine() is None


def test_engine_off_refuses_to_start_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))  # no docker client: no engine of the user
    monkeypatch.setenv("DLC_ENGINE", "off")
    monkeypatch.setenv("DLC_ENGINE_DIR", str(tmp_path / "engine"))
    with pytest.raises(EngineError, match="DLC_ENGINE=off"):
        connect()
    assert not (tmp_path / "engine").exists()


@pytest.mark.parametrize("text", ["", "garbage", "999999999"])
def test_stale_pid_file_is_not_our_engine(tmp_path: Path, text: str) -> None:
    (tmp_path / "docker.pid").write_text(text)
    assert PrivateEngine(tmp_path).pid() is None


def test_folder_too_deep_for_a_socket_is_refused_before_anything_starts(tmp_path: Path) -> None:
    engine = PrivateEngine(tmp_path / ("d" * 120))
    with pytest.raises(EngineError, match="too long for a socket") as caught:
        engine.start()
    assert "DLC_ENGINE_DIR" in caught.value.remedy


@pytest.mark.parametrize("containerd", [True, False])
def test_an_engine_keeps_the_store_that_it_was_made_with(tmp_path: Path, containerd: bool) -> None:
    """In another one the user's images would be out of sight."""
    features = {"features": {"containerd-snapshotter": containerd}}
    (tmp_path / "daemon.json").write_text(json.dumps({**DAEMON_CONFIG, **features}))
    assert read_kept_store(tmp_path / "daemon.json") == features


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '"x"'])
def test_a_new_engine_or_one_whose_configuration_is_damaged_gets_ours(tmp_path: Path, content: str) -> None:
    assert read_kept_store(tmp_path / "none") == {}
    (tmp_path / "daemon.json").write_text(content)
    assert read_kept_store(tmp_path / "daemon.json") == {}


def test_base_file_system_is_named_after_how_it_is_made(tmp_path: Path) -> None:
    folders = {rootfs.rootfs_folder(suite, {}, tmp_path) for suite in ("bullseye", "bookworm", "trixie")}
    assert len(folders | {rootfs.rootfs_folder("bookworm", {"libc6": "2.36-9"}, tmp_path)}) == 4
    assert "--include=ca-certificates,usr-is-merged" in suites.mmdebstrap_command("bookworm")
    assert "--include=ca-certificates" in suites.mmdebstrap_command("bullseye")


def test_base_file_system_that_is_there_is_used_as_it_is(tmp_path: Path) -> None:
    folder = rootfs.rootfs_folder("bookworm", {}, tmp_path)
    folder.mkdir(parents=True)
    (folder / "rootfs.tar").write_bytes(b"tar")
    seal(folder / "rootfs.tar")
    assert rootfs.make_rootfs("bookworm", {}, tmp_path) == folder


@pytest.mark.parametrize("damage", [b"tax", b""], ids=["other bytes", "empty"])
def test_base_file_system_that_is_not_as_it_was_made_is_made_anew(
    damage: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rootfs, "require_program", lambda cache: None)
    monkeypatch.setattr(rootfs, "_build_tar", lambda suite, recorded, draft: (draft / "rootfs.tar").write_bytes(b"tar"))
    for _ in range(2):
        made = rootfs.make_rootfs("bookworm", {}, tmp_path)
        tools = rootfs.keep_rootfs(made, "bookworm", tmp_path)
        assert {(folder / "rootfs.tar").read_bytes() for folder in (made, tools)} == {b"tar"}
        (made / "rootfs.tar").write_bytes(damage)  # of both: they are one file
    assert capsys.readouterr().err.count("not as it was written; made anew") == 2


def test_base_file_system_has_the_same_modes_whatever_the_umask_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rootfs, "require_program", lambda cache: None)
    monkeypatch.setattr(rootfs, "_build_tar", lambda suite, recorded, draft: (draft / "rootfs.tar").write_bytes(b"tar"))
    before = os.umask(0o077)
    try:
        made = rootfs.make_rootfs("bookworm", {}, tmp_path)
    finally:
        os.umask(before)
    assert [oct(path.stat().st_mode & 0o777) for path in (made, made / "rootfs.tar")] == ["0o755", "0o644"]


def test_who_waits_for_the_lock_gives_up_at_a_bound_and_says_who_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dlc.engine.private_engine.LOCK_SECONDS", 0.2)
    engine = PrivateEngine(tmp_path)
    with engine.lock(), pytest.raises(EngineError, match="another dlc has been starting or stopping"), engine.lock():
        pass


def test_a_folder_that_cannot_be_made_is_named_with_the_variable_that_names_another(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    engine = PrivateEngine(tmp_path / "file/engine")
    with pytest.raises(EngineError, match="expected a folder that dlc can make") as caught, engine.lock():
        pass
    assert caught.value.message.startswith(f"{engine.folder}: ")
    assert "DLC_ENGINE_DIR" in caught.value.remedy


def test_a_lock_whose_folder_was_removed_meanwhile_is_taken_anew(tmp_path: Path) -> None:
    engine = PrivateEngine(tmp_path / "engine")
    entered = threading.Event()

    def second() -> None:
        with engine.lock():
            assert (engine.folder / "lock").exists()
            entered.set()

    waiting = threading.Thread(target=second)
    with engine.lock():
        waiting.start()
        # As `dlc engine remove` does it. The other thread may make its lock before the folder is gone.
        (engine.folder / "lock").unlink()
        with suppress(OSError):
            engine.folder.rmdir()
    assert entered.wait(30)
    waiting.join()


@pytest.mark.parametrize("was_there", [False, True])
def test_a_folder_that_is_removed_before_its_lock_is_opened_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_there: bool
) -> None:
    engine = PrivateEngine(tmp_path / "engine")
    make, made = Path.mkdir, []

    def make_and_lose_the_first(self: Path, **options: Any) -> None:
        make(self, **options)
        made.append(self)
        if len(made) == 1:
            self.rmdir()
            if was_there:
                raise FileExistsError(errno.EEXIST, "File exists", str(self))

    monkeypatch.setattr(Path, "mkdir", make_and_lose_the_first)
    with engine.lock():
        assert (engine.folder / "lock").exists()
    assert made == [engine.folder] * 2


def test_a_lock_that_is_a_link_to_nowhere_is_named_and_not_tried_for_ever(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "nowhere/lock")
    with pytest.raises(EngineError, match="lock: cannot be made") as caught, PrivateEngine(tmp_path).lock():
        pass
    assert caught.value.remedy == f"remove {tmp_path}/lock"
