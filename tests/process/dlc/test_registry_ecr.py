"""registry.client.ecr against moto's server, which answers boto3's requests as AWS would."""

from __future__ import annotations

import os
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer
from scripted_server import Asked, Reply, serving
from toy_push import Registry, docker_client

from dlc.core.errors import RegistryError
from dlc.engine.docker_client import Engine
from dlc.inspection import facts
from dlc.registry.client import ecr
from dlc.registry.client.destination import open_destination
from dlc.registry.push import Order, Pushed, push_image
from dlc.registry.tag_age import Claim
from harness.authority import Authority

REGISTRY = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture(autouse=True)
def account(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's AWS set-up, with no file of this host in it."""
    settings = {
        "AWS_ENDPOINT_URL": server, "AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-1", "NO_PROXY": "*",
        "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key", "AWS_CONFIG_FILE": "/nonexistent",
        "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true",
    }  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


def repositories() -> list[dict[str, object]]:
    return list(boto3.client("ecr").describe_repositories()["repositories"])


@contextmanager
def leading_to(host: str) -> Iterator[str]:
    """The address of a proxy whose tunnels all end at this host and port, whatever they are asked for."""

    class Tunnel(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            name, _, port = host.partition(":")
            with socket.create_connection((name, int(port))) as there:
                back = threading.Thread(target=forward, args=(there, self.connection))
                back.start()
                forward(self.connection, there)
                back.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Tunnel) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def forward(source: socket.socket, target: socket.socket) -> None:
    """Until the source ends."""
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return  # one side has gone


@pytest.mark.parametrize("is_valid", [True, False], ids=["token", "another account's token"])
def test_an_image_is_pushed_to_the_accounts_registry_with_the_accounts_token(
    is_valid: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a proxy, to a registry of that name with TLS: moto has none."""
    docker_client(tmp_path / "client")
    monkeypatch.setenv("PATH", f"{tmp_path / 'client'}:{os.environ['PATH']}")
    boto3.setup_default_session()
    authority, kept, secret = Authority(tmp_path), Registry(), ecr.log_in_to_ecr()[1].secret
    token = ecr.log_in_to_ecr()[1].basic if is_valid else "Basic another"

    def answer(asked: Asked) -> Reply:
        if asked.headers.get("Authorization") != token:
            return Reply(401, {"WWW-Authenticate": f'Basic realm="https://{REGISTRY}/",service="ecr.amazonaws.com"'})
        return kept(asked)

    def pushed() -> Pushed:
        engine = Engine(None, "", "", containerd_store=False)
        order = Order("toy", "toy:1", "toy", ("1",), facts.inspect_image(engine, "toy:1"))
        repository = open_destination("ecr", authority.bundle).repository("pushed", print)
        return push_image(order, repository, engine, "gzip", lambda _: None, lambda: b"{}", Claim("", None))

    with serving(answer, authority.context(f"DNS:{REGISTRY}")) as server, leading_to(server.host) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        if is_valid:
            assert pushed().digest in kept.kept
            assert "1" in kept.kept
        else:
            with pytest.raises(RegistryError, match="found the push refused") as caught:
                pushed()
            assert secret not in str(caught.value)
            assert "aws sts get-caller-identity" in caught.value.remedy
    assert "dlc/pushed" in [entry["repositoryName"] for entry in repositories()]


def test_login_gives_the_accounts_registry_and_the_user_that_ecr_expects() -> None:
    host, credentials = ecr.log_in_to_ecr()
    assert host == REGISTRY
    assert credentials.user == "AWS"
    assert credentials.secret


def test_missing_repository_is_made_with_scans_and_tags_that_move() -> None:
    ecr.ensure_repository("dlc/toy")
    [made] = [entry for entry in repositories() if entry["repositoryName"] == "dlc/toy"]
    assert made["imageScanningConfiguration"] == {"scanOnPush": True}
    assert made["imageTagMutability"] == "MUTABLE"


def test_repository_that_is_there_is_left_as_it_is() -> None:
    boto3.client("ecr").create_repository(repositoryName="dlc/kept", imageTagMutability="IMMUTABLE")
    ecr.ensure_repository("dlc/kept")
    [kept] = [entry for entry in repositories() if entry["repositoryName"] == "dlc/kept"]
    assert kept["imageTagMutability"] == "IMMUTABLE"


def test_destination_is_the_accounts_registry_and_makes_nothing_until_a_push() -> None:
    destination = open_destination("ecr", None)
    assert destination.reference("pytorch") == f"{REGISTRY}/dlc/pytorch"
    assert "dlc/pytorch" not in [entry["repositoryName"] for entry in repositories()]
    destination.repository("pytorch", print)
    assert "dlc/pytorch" in [entry["repositoryName"] for entry in repositories()]


@pytest.mark.parametrize("missing", ["AWS_REGION", "AWS_ACCESS_KEY_ID"])
def test_user_without_region_or_credentials_is_told_to_configure_them(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(missing)
    if missing == "AWS_REGION":
        monkeypatch.delenv("AWS_DEFAULT_REGION")
    boto3.setup_default_session()
    with pytest.raises(RegistryError, match="ECR get_authorization_token: ") as caught:
        ecr.log_in_to_ecr()
    assert caught.value.remedy == "set region and credentials: aws configure"
    assert caught.value.exit_code == RegistryError.exit_code


def test_name_that_ecr_refuses_is_its_error_in_our_words() -> None:
    with pytest.raises(RegistryError, match="ECR create_repository: ") as caught:
        ecr.ensure_repository("Upper/Case")
    assert "permissions" in caught.value.remedy


def test_without_boto3_the_error_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['boto3'] = None\n"
        "from dlc.core.errors import RegistryError\n"
        "from dlc.registry.client.destination import open_destination\n"
        "try: open_destination('ecr', None)\n"
        "except RegistryError as error: print(error)"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert "expected the Python package boto3, found none" in done.stdout
    assert "remedy: .venv/bin/python -m pip install boto3" in done.stdout
