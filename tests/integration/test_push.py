"""`dlc push` to a real registry: what is served is the built image, failures are survived, tags move last or not."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dlc.core.errors import ImageError, ProcessError, ProofError, RegistryError
from dlc.registry.client.credentials import Credentials
from dlc.registry.client.http import Session
from dlc.registry.client.repository import Repository, make_digest
from harness import toy
from harness.authority import Authority
from harness.engine import docker
from harness.registry import PASSWORD, USER, Registry
from harness.relay import Relay
from harness.signed_image import make_key
from harness.toy import command, dlc, environment, make_checkout

pytestmark = pytest.mark.integration

REPOSITORY = "dlc-toy-push"
REF = toy.ref(REPOSITORY)
STEM = "1.17.0-training-cpu-py311-bookworm"
HANG_SECONDS = 180.0
LAYER = "PUT /.*/blobs/uploads/"  # the request that sends one


@pytest.fixture(scope="module")
def built(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A checkout whose toy image is built."""
    root = tmp_path_factory.mktemp("checkout")
    make_checkout(root, REPOSITORY)
    done = dlc(root, "build", "toy-*")
    assert done.returncode == 0, done.stderr
    yield root
    docker("image", "rm", "--force", REF, check=False)


@pytest.fixture(scope="module")
def registry(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    running = Registry(tmp_path_factory.mktemp("registry"))
    running.start()
    yield running
    running.kill()


@pytest.fixture(scope="module")
def login(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    return registry.login(tmp_path_factory.mktemp("docker"))


def push(root: Path, registry: Registry, path: str, login: Mapping[str, str], *words: str) -> dict[str, Any]:
    """The one row of JSON that a push reports."""
    done = dlc(root, "push", "toy-*", "--no-scan", "--to", f"{registry.host}/{path}", "--json", *words, **login)
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)
    return dict(row)


def manifest(registry: Registry, digest: str) -> dict[str, Any]:
    return dict(json.loads(registry.blob(digest).read_text()))


def tag_digest(registry: Registry, name: str, tag: str) -> str:
    """The digest that a tag means, as it lies on the registry's disk."""
    return (registry.repository(name) / "_manifests/tags" / tag / "current/link").read_text()


def wait_for(done: Callable[[], bool], process: subprocess.Popen[bytes], errors: Path) -> None:
    """Return when something is so; the test fails where the process ends before."""
    deadline = time.monotonic() + HANG_SECONDS
    while not done():
        assert process.poll() is None, errors.read_text()
        assert time.monotonic() < deadline, errors.read_text()
        time.sleep(0.05)


@pytest.mark.core
def test_dry_run_shows_the_tags_and_pushes_nothing(built: Path, registry: Registry, login: Mapping[str, str]) -> None:
    row = push(built, registry, "dry", login, "--dry-run")
    key = json.loads(docker("image", "inspect", REF).stdout)[0]["Config"]["Labels"]["org.dlc.content-key"]
    assert row["repository"] == "dry/toy"
    assert row["tags"][0] == f"{STEM}-{key[:12]}"
    assert row["tags"][-1] == STEM
    assert not registry.repository("dry/toy").exists()


@pytest.mark.core
def test_pushed_image_is_the_built_one_under_its_digest_and_every_tag(
    built: Path, registry: Registry, login: Mapping[str, str]
) -> None:
    row = push(built, registry, "whole", login)
    assert registry.tags("whole/toy") == sorted(row["tags"])
    assert {tag_digest(registry, "whole/toy", tag) for tag in row["tags"]} == {row["digest"]}
    served = manifest(registry, row["digest"])
    assert all(layer["mediaType"].endswith("tar+gzip") for layer in served["layers"])
    config = json.loads(registry.blob(served["config"]["digest"]).read_text())
    [inspected] = json.loads(docker("image", "inspect", REF).stdout)
    assert config["rootfs"]["diff_ids"] == inspected["RootFS"]["Layers"]
    assert config["config"]["Labels"] == inspected["Config"]["Labels"]


@pytest.mark.core
def test_pushed_image_can_be_pulled_by_its_digest_and_runs(
    built: Path, registry: Registry, login: Mapping[str, str]
) -> None:
    row = push(built, registry, "whole", login)
    name = f"{registry.host}/whole/toy@{row['digest']}"
    settings = environment(**login)
    try:
        argv = ["docker", "run", "--rm", name, "python", "-c", "import six; print(six.__version__)"]
        done = subprocess.run(argv, env=settings, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
        assert (done.returncode, done.stdout) == (0, "1.17.0\n"), done.stderr
    finally:
        docker("image", "rm", "--force", name, check=False)


def test_second_push_sends_nothing(built: Path, registry: Registry, login: Mapping[str, str]) -> None:
    first = push(built, registry, "whole", login)
    second = push(built, registry, "whole", login)
    assert second["uploaded"] == 0
    assert second["digest"] == first["digest"]


def test_tag_that_somebody_moved_is_put_right_without_an_upload(
    built: Path, registry: Registry, login: Mapping[str, str]
) -> None:
    row = push(built, registry, "moved", login)
    (registry.repository("moved/toy") / "_manifests/tags" / STEM / "current/link").unlink()
    again = push(built, registry, "moved", login)
    assert again["uploaded"] == 0
    assert tag_digest(registry, "moved/toy", STEM) == row["digest"]


def test_an_image_of_set_is_pushed_beside_the_plain_one_and_moves_none_of_its_tags(
    built: Path, registry: Registry, login: Mapping[str, str]
) -> None:
    plain = push(built, registry, "set", login)
    sets = ("--set", "labels.team=vision")
    name = toy.changed_ref(built, sets[1])
    try:
        built_anew = dlc(built, "build", "toy-*", *sets)
        assert built_anew.returncode == 0, built_anew.stderr
        row = push(built, registry, "set", login, *sets)
    finally:
        docker("image", "rm", name, check=False)
    assert set(row["tags"]).isdisjoint(plain["tags"])
    assert registry.tags("set/toy") == sorted([*plain["tags"], *row["tags"]])
    assert {tag_digest(registry, "set/toy", tag) for tag in plain["tags"]} == {plain["digest"]}


def test_other_compression_is_another_manifest_of_the_same_configuration(
    built: Path, registry: Registry, login: Mapping[str, str]
) -> None:
    gzip = push(built, registry, "compressed", login)
    zstd = push(built, registry, "compressed", login, "--compression", "zstd")
    one, other = manifest(registry, gzip["digest"]), manifest(registry, zstd["digest"])
    assert one["config"] == other["config"]
    assert all(layer["mediaType"].endswith("tar+zstd") for layer in other["layers"])
    assert tag_digest(registry, "compressed/toy", STEM) == zstd["digest"]


def test_wrong_password_is_one_message_without_it(built: Path, tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.start()
    try:
        login = registry.login(tmp_path / "docker")
        registry.kill()
        registry.set_password("another")
        registry.start()
        done = dlc(built, "push", "toy-*", "--no-scan", "--to", f"{registry.host}/team", **login)
    finally:
        registry.kill()
    assert done.returncode == RegistryError.exit_code
    assert "found the push refused" in done.stderr
    assert f"docker login {registry.host}" in done.stderr
    assert "Traceback" not in done.stderr
    assert PASSWORD not in done.stdout + done.stderr


def test_registry_of_a_private_authority_takes_a_push_that_names_its_bundle(built: Path, tmp_path: Path) -> None:
    form = "{{(index .IPAM.Config 0).Gateway}}"
    address = docker("network", "inspect", "bridge", "--format", form).stdout.strip()  # this host's, and not loopback
    authority = Authority(tmp_path)
    registry = Registry(tmp_path, address, authority)
    registry.start()
    try:
        login = registry.login(tmp_path / "docker")
        refused = dlc(built, "push", "toy-*", "--no-scan", "--to", f"{registry.host}/team", **login)
        row = push(built, registry, "team", {**login, "DLC_CA_BUNDLE": str(authority.bundle)})
    finally:
        registry.kill()
    assert refused.returncode == RegistryError.exit_code
    assert "name the CA bundle in DLC_CA_BUNDLE" in refused.stderr
    assert registry.tags("team/toy") == sorted(row["tags"])


def test_registry_that_is_read_only_is_told_before_the_image_is_exported(built: Path, tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.readonly = True
    registry.start()
    try:
        login = registry.login(tmp_path / "docker")
        done = dlc(built, "push", "toy-*", "--no-scan", "--to", f"{registry.host}/team", **login)
    finally:
        registry.kill()
    assert done.returncode == RegistryError.exit_code
    assert "status 405" in done.stderr
    assert "Traceback" not in done.stderr


def test_two_pushes_at_once_end_with_one_image(
    built: Path, registry: Registry, login: Mapping[str, str], tmp_path: Path
) -> None:
    argv = command("push", "toy-*", "--no-scan", "--to", f"{registry.host}/twice", "--json")
    outputs = [tmp_path / name for name in ("one", "two")]
    running = []
    for path in outputs:
        with path.open("wb") as out, path.with_suffix(".err").open("wb") as said:
            running.append(subprocess.Popen(argv, cwd=built, env=environment(**login), stdout=out, stderr=said))
    for process, path in zip(running, outputs, strict=True):
        assert process.wait(HANG_SECONDS) == 0, path.with_suffix(".err").read_text()
    digests = {row["digest"] for path in outputs for row in json.loads(path.read_text())}
    assert digests == {tag_digest(registry, "twice/toy", STEM)}


def test_same_image_has_the_same_digest_in_every_repository(
    built: Path, registry: Registry, login: Mapping[str, str]
) -> None:
    digests = {push(built, registry, path, login)["digest"] for path in ("here", "there")}
    assert len(digests) == 1


def test_a_layer_of_another_repository_is_taken_from_there(
    built: Path, registry: Registry, login: Mapping[str, str]
) -> None:
    row = push(built, registry, "mounted", login)
    layer = manifest(registry, row["digest"])["layers"][0]
    known = Credentials(USER, PASSWORD)
    url = f"http://{registry.host}"
    reader = Session(url, "mounted/other", known, also_read="mounted/toy")
    other = Repository(Session(url, "mounted/other", known), "mounted/other", beside=[("mounted/toy", reader)])
    assert other.size(layer["digest"]) is None
    assert other.mount(layer["digest"])
    assert other.size(layer["digest"]) == layer["size"]
    assert not other.mount(make_digest(b"no such layer"))


def test_registry_that_goes_away_during_the_push_is_waited_for(built: Path, registry: Registry, tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with Relay(registry.host, held=LAYER) as relay:
        argv = command("push", "toy-*", "--no-scan", "--to", f"{relay.host}/killed", "--json")
        settings = environment(**registry.login(tmp_path / "docker", relay.host))
        with errors.open("wb") as said, (tmp_path / "out").open("wb") as out:
            pusher = subprocess.Popen(argv, cwd=built, env=settings, stdout=out, stderr=said)
        try:
            wait_for(relay.reached.is_set, pusher, errors)
            registry.kill()
            relay.stop()
            wait_for(lambda: "again in" in errors.read_text(), pusher, errors)
            assert registry.tags("killed/toy") == []
            registry.start()
            relay.start()
            assert pusher.wait(HANG_SECONDS) == 0, errors.read_text()
        finally:
            pusher.kill()
            pusher.wait()
    [row] = json.loads((tmp_path / "out").read_text())
    assert registry.tags("killed/toy") == sorted(row["tags"])


def test_interrupted_push_leaves_no_tag_no_file_and_the_next_one_completes(
    built: Path, registry: Registry, login: Mapping[str, str], tmp_path: Path
) -> None:
    errors, temporary = tmp_path / "errors", tmp_path / "temporary"
    temporary.mkdir()
    with Relay(registry.host, held=LAYER) as relay:
        argv = command("push", "toy-*", "--no-scan", "--to", f"{relay.host}/interrupted")
        settings = environment(**registry.login(tmp_path / "docker", relay.host), TMPDIR=str(temporary))
        with errors.open("wb") as said:
            pusher = subprocess.Popen(argv, cwd=built, env=settings, stdout=said, stderr=said, start_new_session=True)
        try:
            wait_for(relay.reached.is_set, pusher, errors)
            os.killpg(pusher.pid, signal.SIGINT)
            assert pusher.wait(HANG_SECONDS) == 130, errors.read_text()
        finally:
            pusher.kill()
            pusher.wait()
    assert errors.read_text().endswith("dlc: interrupted\n")
    assert list(temporary.iterdir()) == []
    assert registry.tags("interrupted/toy") == []
    row = push(built, registry, "interrupted", login)
    assert registry.tags("interrupted/toy") == sorted(row["tags"])


def test_no_tag_moves_to_what_the_registry_serves_wrong(
    built: Path, registry: Registry, login: Mapping[str, str]
) -> None:
    row = push(built, registry, "whole", login)
    config = registry.blob(manifest(registry, row["digest"])["config"]["digest"])
    right = config.read_bytes()
    config.write_bytes(right.replace(b'"linux"', b'"linus"'))
    try:
        done = dlc(built, "push", "toy-*", "--no-scan", "--to", f"{registry.host}/tampered", **login)
    finally:
        config.write_bytes(right)
    assert done.returncode == RegistryError.exit_code
    assert "configuration: expected sha256:" in done.stderr
    assert registry.tags("tampered/toy") == []


def test_image_older_than_its_sources_is_not_pushed(built: Path, registry: Registry, login: Mapping[str, str]) -> None:
    launcher = built / "src/entrypoint/launcher.py"
    before = launcher.read_text()
    launcher.write_text(before + "# one more line\n")
    try:
        done = dlc(built, "push", "toy-*", "--no-scan", "--to", f"{registry.host}/stale", **login)
    finally:
        launcher.write_text(before)
    assert done.returncode == ImageError.exit_code
    assert f"dlc build {toy.ID}" in done.stderr
    assert not registry.repository("stale/toy").exists()


def test_nothing_is_left_in_the_temporary_folder(
    built: Path, registry: Registry, login: Mapping[str, str], tmp_path: Path
) -> None:
    push(built, registry, "left", {**login, "TMPDIR": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []


def test_the_bill_of_materials_is_attached_once_and_describes_the_image(
    built: Path, registry: Registry, login: Mapping[str, str]
) -> None:
    row = push(built, registry, "billed", login)
    index = json.loads(registry.blob(tag_digest(registry, "billed/toy", f"sha256-{row['digest'][7:]}")).read_text())
    [entry] = index["manifests"]
    assert (entry["digest"], entry["artifactType"]) == (row["bill_of_materials"], "application/spdx+json")
    referrer = manifest(registry, entry["digest"])
    assert referrer["subject"]["digest"] == row["digest"]
    document = json.loads(registry.blob(referrer["layers"][0]["digest"]).read_text())
    assert {"six", "tini", "dlc-launcher"} <= {package["name"] for package in document["packages"]}
    assert push(built, registry, "billed", login)["bill_of_materials"] == entry["digest"]


NOBODY = dict.fromkeys(("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"), "http://127.0.0.1:9")


def test_an_image_with_a_known_vulnerability_is_not_pushed(
    built: Path, registry: Registry, login: Mapping[str, str], tmp_path: Path
) -> None:
    affected = {"package": {"ecosystem": "PyPI", "name": "six"}, "versions": ["1.17.0"]}
    advisory = {"id": "PYSEC-2026-1", "modified": "2026-11-20T10:00:00Z", "affected": [affected]}
    dump = tmp_path / "all.zip"
    with zipfile.ZipFile(dump, "w") as archive:
        archive.writestr("PYSEC-2026-1.json", json.dumps(advisory))
    named = f"{dump}#sha256={hashlib.sha256(dump.read_bytes()).hexdigest()}"
    asked = {**login, **NOBODY, "NO_PROXY": "127.0.0.1", "DLC_OSV_DUMP": named}
    done = dlc(built, "push", "toy-*", "--to", f"{registry.host}/vulnerable", **asked)
    assert done.returncode == ImageError.exit_code, done.stderr
    assert "six" in done.stderr
    assert "dlc update debian --write" in done.stderr
    assert not registry.repository("vulnerable/toy").exists()


def test_what_no_source_can_be_asked_about_is_not_pushed(
    built: Path, registry: Registry, login: Mapping[str, str]
) -> None:
    done = dlc(built, "push", "toy-*", "--to", f"{registry.host}/unasked", **login, **NOBODY, NO_PROXY="127.0.0.1")
    assert done.returncode == ProcessError.exit_code, done.stderr
    assert "could not be asked" in done.stderr
    assert "DLC_OSV_DUMP" in done.stderr
    assert not registry.repository("unasked/toy").exists()


def test_a_signed_push_passes_verify_and_another_key_is_refused(
    built: Path, registry: Registry, login: Mapping[str, str], tmp_path: Path
) -> None:
    for name in ("cosign", "other"):
        make_key(tmp_path, name)
        (tmp_path / f"{name}.yml").write_text(
            f"signers: [{{key: {tmp_path}/{name}.pub}}]\nrequire: [signature, provenance, bill]\nsources: any\n"
        )
    push(built, registry, "signed", login, "--sign", str(tmp_path / "cosign.key"))
    reference = f"{registry.host}/signed/toy:{STEM}"
    done = dlc(built, "verify", reference, "--policy", str(tmp_path / "cosign.yml"), **login)
    assert done.returncode == 0, done.stderr
    refused = dlc(built, "verify", reference, "--policy", str(tmp_path / "other.yml"), **login)
    assert refused.returncode == ProofError.exit_code, refused.stderr
