"""push.registry.credentials asks docker's credential helpers, which are programs, and shows none of their output."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from dlc.core.errors import RegistryError
from dlc.images.push.registry.credentials import Credentials, of_registry

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


def test_helper_of_the_host_is_asked_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = f"""read -r name; [ "$1 $name" = "get {HOST}" ] && echo '{{"Username": "me", "Secret": "from-vault"}}'"""
    helper(tmp_path, monkeypatch, script)
    path = config(tmp_path, credHelpers={HOST: "vault"}, auths={HOST: auth("me:from-file")})
    assert of_registry(HOST, path) == Credentials("me", "from-vault")


def test_identity_token_is_known_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, monkeypatch, """echo '{"Username": "<token>", "Secret": "refresh"}'""")
    found = of_registry(HOST, config(tmp_path, credsStore="vault"))
    assert found == Credentials("<token>", "refresh", identity=True)
    path = config(tmp_path, auths={HOST: {"identitytoken": "refresh"}})
    assert of_registry(HOST, path) == found


def test_helper_that_knows_nothing_leaves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, monkeypatch, "echo credentials not found in native keychain; exit 1")
    path = config(tmp_path, credsStore="vault", auths={HOST: auth("me:x")})
    assert of_registry(HOST, path) == Credentials("me", "x")


def test_helper_that_fails_is_named_and_its_output_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper(tmp_path, monkeypatch, "echo hunter2; echo hunter2 >&2; exit 3")
    with pytest.raises(RegistryError, match="docker-credential-vault get: exit code 3") as caught:
        of_registry(HOST, config(tmp_path, credsStore="vault"))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("answer", ["hunter2", "[]", "null", '{"Username": "hunter2"}'])
def test_helper_that_answers_something_else_is_named_and_its_output_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    helper(tmp_path, monkeypatch, f"echo '{answer}'")
    with pytest.raises(RegistryError, match="docker-credential-vault get: expected JSON") as caught:
        of_registry(HOST, config(tmp_path, credsStore="vault"))
    assert "hunter2" not in str(caught.value)
