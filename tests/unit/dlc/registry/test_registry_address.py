"""registry.client.address: where `--to` leads, and when without TLS."""

from __future__ import annotations

import pytest

from dlc.core.errors import UsageError
from dlc.registry.client.credentials import is_loopback, parse_address


@pytest.mark.parametrize(
    ("text", "host", "path", "url"),
    [
        ("registry.example/team", "registry.example", "team", "https://registry.example"),
        ("registry.example:5000/a/b-c", "registry.example:5000", "a/b-c", "https://registry.example:5000"),
        ("docker.io/team", "docker.io", "team", "https://registry-1.docker.io"),
        ("localhost/x", "localhost", "x", "http://localhost"),
        ("127.0.0.1:5000/x", "127.0.0.1:5000", "x", "http://127.0.0.1:5000"),
        ("[::1]:5000/x", "[::1]:5000", "x", "http://[::1]:5000"),
        ("10.0.0.1:5000/x", "10.0.0.1:5000", "x", "https://10.0.0.1:5000"),
    ],
)
def test_address_is_read_as_docker_reads_it(text: str, host: str, path: str, url: str) -> None:
    address = parse_address(text)
    assert (address.registry, address.path, address.url) == (host, path, url)


@pytest.mark.parametrize(
    "text",
    ["", "team", "team/pytorch", "registry.example", "registry.example/", "registry.example/Team",
     "registry.example/team:tag", "registry.example/team@sha256:00", "https://registry.example/team",
     "registry.example:99999/team", "registry.example:0/team", "registry.example:port/team", "re gistry.example/team",
     "a..b/team", "[::1/team", "r\u00e9gistre.example/team",
     "registry.example//team", "registry.example/../team", "ecr/"],
)  # fmt: skip
def test_text_that_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="expected REGISTRY/REPO, such as ") as caught:
        parse_address(text)
    assert caught.value.exit_code == UsageError.exit_code


@pytest.mark.parametrize("password", ["secret", "p@secret", "p/secret", "p@p/secret@"])
@pytest.mark.parametrize("scheme", ["", "https://"])
def test_a_password_in_an_address_is_refused_and_not_shown(scheme: str, password: str) -> None:
    with pytest.raises(UsageError, match=r"--to registry\.example/team: expected") as caught:
        parse_address(f"{scheme}me:{password}@registry.example/team")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.1.2.3", "127.0.0.1:1", "localhost:5000", "[::1]", "[::1]:5000"])
def test_loopback_needs_no_certificate(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "10.0.0.1", "127.0.0.1.example", "localhost.example", "[2001:db8::1]:5000"])
def test_every_other_host_needs_one(host: str) -> None:
    assert not is_loopback(host)
