"""own_name: a host's own name is made known where it leads nowhere and the hosts file is the container's."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.discovery import own_name

NAME = "0f1e2d3c4b5a"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root folder of a container without a network."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hosts").write_text(f"127.0.0.1 localhost ip6-localhost # {NAME}\n")
    monkeypatch.setattr("os.path.ismount", lambda path: path == f"{tmp_path}/etc/hosts")
    return tmp_path


def test_names_that_the_hosts_file_lacks_are_found_once(root: Path) -> None:
    assert own_name.find_unlisted(
        ["localhost", NAME, "ip6-localhost", NAME, "", "127.0.0.1", "fd00::1"], str(root)
    ) == [NAME]
    (root / "etc/hosts").unlink()
    assert own_name.find_unlisted(["localhost"], str(root)) == ["localhost"]


def test_names_that_were_added_are_listed(root: Path) -> None:
    assert own_name.may_list_names(str(root))
    own_name.list_names([NAME, "algo-1"], "127.0.0.1", str(root))
    assert own_name.find_unlisted([NAME, "algo-1"], str(root)) == []
    assert (root / "etc/hosts").read_text().endswith(f"127.0.0.1\t{NAME} algo-1\n")


def test_the_hosts_file_of_a_machine_is_not_the_launchers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.ismount", lambda _: False)
    assert not own_name.may_list_names(str(root))


def test_preflight_says_so_where_the_launcher_cannot_mend_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody_knows(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(own_name, "get_own_name", lambda: NAME)
    monkeypatch.setattr(own_name._socket, "getaddrinfo", nobody_knows)
    assert own_name.describe_trouble(str(root)) == []
    monkeypatch.setattr("os.path.ismount", lambda _: False)
    [said] = own_name.describe_trouble(str(root))
    assert f"--add-host {NAME}:127.0.0.1" in said
    monkeypatch.setattr(own_name._socket, "getaddrinfo", lambda *_: ["an address"])
    assert own_name.describe_trouble(str(root)) == []
