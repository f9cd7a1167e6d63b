"""registry.client.credentials: what `docker login` left is found wherever it keeps it, and no text of ours shows it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from dlc.core.errors import RegistryError
from dlc.registry.client.credentials import Credentials, read_credentials

HOST = "registry.example:5000"


def config(folder: Path, **content: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(content))
    return path


def auth(text: str) -> dict[str, str]:
    return {"auth": base64.b64encode(text.encode()).decode()}


def helper(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A credential helper of this name on PATH."""
    path = folder / "docker-credential-vault"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.mark.parametrize("name", [HOST, f"https://{HOST}", f"https://{HOST}/v1/"])
def test_login_is_read_under_every_name_that_clients_wrote(tmp_path: Path, name: str) -> None:
    assert read_credentials(HOST, config(tmp_path, auths={name: auth("me:a:b")})) == Credentials("me", "a:b")


def test_docker_hub_has_a_name_of_its_own(tmp_path: Path) -> None:
    path = config(tmp_path, auths={"https://index.docker.io/v1/": auth("me:x")})
    assert read_credentials("docker.io", path) == Credentials("me", "x")


def test_other_hosts_credentials_are_nobody_elses(tmp_path: Path) -> None:
    path = config(tmp_path, auths={"registry.example": auth("me:x"), f"{HOST}.evil": auth("you:y")})
    assert read_credentials(HOST, path) is None


def test_no_configuration_is_nobody_logged_in(tmp_path: Path) -> None:
    assert read_credentials(HOST, tmp_path / "none.json") is None


def test_a_configuration_that_cannot_be_read_is_said_with_its_place(tmp_path: Path) -> None:
    """A folder at its place: what tests of every user can make unreadable."""
    (tmp_path / "config.json").mkdir()
    with pytest.raises(RegistryError, match=r"config\.json: expected the docker client's configuration") as caught:
        read_credentials(HOST, tmp_path / "config.json")
    assert "DOCKER_CONFIG" in caught.value.remedy


def test_folder_of_the_configuration_is_the_one_docker_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config(tmp_path, auths={HOST: auth("me:x")})
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert read_credentials(HOST) == Credentials("me", "x")


def test_helper_of_the_host_is_asked_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = f"""read -r name; [ "$1 $name" = "get {HOST}" ] && echo '{{"Username": "me", "Secret": "from-vault"}}'"""
    helper(tmp_path, monkeypatch, script)
    path = config(tmp_path, credHelpers={HOST: "vault"}, auths={HOST: auth("me:from-file")})
    assert read_credentials(HOST, path) == Credentials("me", "from-vault")


def test_identity_token_is_known_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, monkeypatch, """echo '{"Username": "<token>", "Secret": "refresh"}'""")
    found = read_credentials(HOST, config(tmp_path, credsStore="vault"))
    assert found == Credentials("<token>", "refresh", identity=True)
    path = config(tmp_path, auths={HOST: {"identitytoken": "refresh"}})
    assert read_credentials(HOST, path) == found


def test_helper_that_knows_nothing_leaves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, monkeypatch, "echo credentials not found in native keychain; exit 1")
    path = config(tmp_path, credsStore="vault", auths={HOST: auth("me:x")})
    assert read_credentials(HOST, path) == Credentials("me", "x")


def test_helper_that_fails_is_named_and_its_output_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper(tmp_path, monkeypatch, "echo hunter2; echo hunter2 >&2; exit 3")
    with pytest.raises(RegistryError, match="docker-credential-vault get: exit code 3") as caught:
        read_credentials(HOST, config(tmp_path, credsStore="vault"))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("text", ["{", "not base64"])
def test_configuration_that_cannot_be_read_is_named_without_its_content(tmp_path: Path, text: str) -> None:
    path = config(tmp_path, auths={HOST: {"auth": text}})
    if text == "{":
        path.write_text(text)
    with pytest.raises(RegistryError, match=r"config\.json") as caught:
        read_credentials(HOST, path)
    assert "not base64" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [{"auths": ["x"]}, {"credHelpers": "vault"}, {"auths": {HOST: {"auth": 5}}}, {"auths": {HOST: {"auth": "ü"}}}],
)
def test_configuration_of_another_form_is_named(tmp_path: Path, content: dict[str, object]) -> None:
    with pytest.raises(RegistryError, match=r"config\.json: "):
        read_credentials(HOST, config(tmp_path, **content))


@pytest.mark.parametrize("answer", ["hunter2", "[]", "null", '{"Username": "hunter2"}'])
def test_helper_that_answers_something_else_is_named_and_its_output_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    helper(tmp_path, monkeypatch, f"echo '{answer}'")
    with pytest.raises(RegistryError, match="docker-credential-vault get: expected JSON") as caught:
        read_credentials(HOST, config(tmp_path, credsStore="vault"))
    assert "hunter2" not in str(caught.value)


def test_secret_is_in_no_text() -> None:
    assert "hunter2" not in repr(Credentials("me", "hunter2"))
