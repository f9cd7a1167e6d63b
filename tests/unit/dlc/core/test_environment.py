"""core.environment: folders, proxies, secrets and the platform, read from variables alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dlc.core import environment
from dlc.core.errors import UsageError


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("DLC_CACHE_DIR", "DLC_ENGINE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_the_cache_is_below_home_unless_a_variable_says_where(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("HOME", "/home/me")
    assert environment.cache_folder() == Path("/home/me/.cache/dlc")
    assert environment.engine_folder() == Path("/home/me/.cache/dlc/engine")
    bare.setenv("XDG_CACHE_HOME", "/caches")
    assert environment.cache_folder() == Path("/caches/dlc")
    bare.setenv("DLC_CACHE_DIR", "/other")
    assert environment.engine_folder() == Path("/other/engine")


@pytest.mark.parametrize("name", ["DLC_CACHE_DIR", "DLC_ENGINE_DIR"])
def test_a_tilde_that_no_shell_has_read_is_the_home_folder_and_no_folder_of_that_name(
    bare: pytest.MonkeyPatch, name: str
) -> None:
    """systemd, compose and env files hand it on as it is; whoever deletes a folder `~` loses more than a cache."""
    bare.setenv("HOME", "/home/me")
    bare.setenv(name, "~/dlc")
    found = {"DLC_CACHE_DIR": environment.cache_folder, "DLC_ENGINE_DIR": environment.engine_folder}[name]()
    assert found == Path("/home/me/dlc")


@pytest.mark.parametrize("home", [None, ""])
def test_without_home_the_user_database_says_where(bare: pytest.MonkeyPatch, home: str | None) -> None:
    if home is None:
        bare.delenv("HOME")
    else:
        bare.setenv("HOME", home)
    assert environment.cache_folder().is_absolute()
    assert environment.cache_folder() != Path.cwd() / ".cache/dlc"


def test_a_user_without_any_home_is_told_what_to_set(bare: pytest.MonkeyPatch) -> None:
    bare.delenv("HOME")
    bare.setattr(os, "getuid", lambda: 987654)
    with pytest.raises(UsageError, match="HOME: expected the user's home folder") as caught:
        environment.cache_folder()
    assert "DLC_CACHE_DIR" in caught.value.remedy


def test_proxies_are_taken_in_both_spellings_and_nothing_else() -> None:
    found = environment.read_proxies(
        {"HTTPS_PROXY": "http://p:1", "no_proxy": "localhost", "HTTP_PROXY": "", "HOME": "/root"}
    )
    assert found == {"HTTPS_PROXY": "http://p:1", "no_proxy": "localhost"}


def test_secrets_are_places_never_values(tmp_path: Path) -> None:
    (tmp_path / "netrc").write_text("machine m password hunter2")
    found = environment.find_secrets({
        "NETRC": f"{tmp_path}/netrc",
        "PIP_INDEX_URL": "https://user:hunter2@index/simple",
        "UV_INDEX_URL": "https://user:hunter2@other/simple",
    })  # fmt: skip
    assert found == {"netrc": f"src={tmp_path}/netrc", "index_url": "env=UV_INDEX_URL"}


def test_platforms_have_the_names_that_docker_uses() -> None:
    assert environment.docker_platform("x86_64") == "linux/amd64"
    assert environment.docker_platform("aarch64") == "linux/arm64"
    assert environment.docker_platform("riscv64") == "linux/riscv64"


def test_certificates_are_a_variables_else_the_systems_else_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, chosen = tmp_path / "system.crt", tmp_path / "company.pem"
    monkeypatch.setattr(environment, "SYSTEM_BUNDLE", system)
    assert environment.find_ca_bundle({}) is None
    system.touch()
    assert environment.find_ca_bundle({}) == system
    chosen.touch()
    assert environment.find_ca_bundle({"SSL_CERT_FILE": str(chosen)}) == chosen
    assert environment.find_ca_bundle({"SSL_CERT_FILE": "/not/there"}) == system


@pytest.mark.parametrize("name", ["not-there", ".", "empty", "garbage"])
def test_a_bundle_of_dlc_without_certificates_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "garbage").write_bytes(b"\xff\0" * 100)
    with pytest.raises(UsageError, match=r"DLC_CA_BUNDLE=.*: expected a file of certificates in PEM, found none"):
        environment.find_ca_bundle({"DLC_CA_BUNDLE": str(tmp_path / name)})


@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME", "DLC_CACHE_DIR"])
@pytest.mark.parametrize("kind", ["a file", "below a file", "a lost link"])
def test_a_file_in_the_place_of_the_cache_is_said_by_its_variable(
    variable: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "DLC_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    wrong = tmp_path / "wrong"
    if kind == "a lost link":
        wrong.symlink_to("nowhere")
    else:
        wrong.write_text("")
    monkeypatch.setenv(variable, str(wrong / "deep/er" if kind == "below a file" else wrong))
    with pytest.raises(
        UsageError, match=rf"^{variable}: expected a folder that may hold .*, found {wrong}, "
    ) as caught:
        environment.cache_folder()
    assert "DLC_CACHE_DIR" in caught.value.remedy
