"""scan behind a proxy that inspects TLS: the authorities that somebody names reach the image and the index."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dlc.engine.docker_client import Engine
from dlc.inspection.advisories import ask_apt, ask_pip_audit
from harness.authority import Authority
from harness.image_facts import specimen_facts
from harness.inspecting_proxy import inspecting


def test_authorities_with_comments_in_any_encoding_reach_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, bundle = tmp_path / "docker", tmp_path / "ca.pem"
    client.write_text(f"#!/bin/sh\nexec /bin/cat >{tmp_path}/given\n")
    client.chmod(0o755)
    bundle.write_bytes(b"# Soci\xe9t\xe9\n-----BEGIN CERTIFICATE-----\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    engine = Engine("unix:///nowhere.sock", "DOCKER_HOST", "1", containerd_store=True)
    assert not ask_apt(engine, specimen_facts(), {}, bundle).unanswered
    assert (tmp_path / "given").read_text().splitlines()[1] == "-----BEGIN CERTIFICATE-----"


@pytest.mark.parametrize(
    ("trusted", "key_usage"),
    [(True, True), (True, False), (False, True)],
    ids=["named", "named, an old one", "not named"],
)
def test_index_behind_a_proxy_that_inspects_tls_is_asked_once_its_authority_is_named(
    trusted: bool, key_usage: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # its cache
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    authority = Authority(tmp_path, key_usage)
    toy = replace(specimen_facts().packages[-1], name="dlc-toy", version="1.0")
    facts = replace(specimen_facts(), packages=(toy,))
    found = {"id": "PYSEC-1", "aliases": [], "fixed_in": ["1.1"], "details": "", "summary": "", "withdrawn": None}
    body = json.dumps({"info": {}, "vulnerabilities": [found]})
    with inspecting(authority.context("DNS:pypi.org"), body.encode()) as (proxy, asked):
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        monkeypatch.setenv("https_proxy", proxy)
        answer = ask_pip_audit(facts, authority.bundle if trusted else None)
    assert [finding.advisory for finding in answer.findings] == (["PYSEC-1"] if trusted else []), answer.unanswered
    assert bool(answer.unanswered) != trusted
    assert bool(asked) == trusted
