"""The operating system in each image: its release, packages and users, and nothing left over from the build."""

from __future__ import annotations

import re

import pytest

from dlc.buildspec.cuda_efa import build_packages
from harness.container import Container, running
from harness.images import Image

pytestmark = pytest.mark.container

# Sticky, as everywhere: anyone may write there, nobody may remove another's file.
WRITABLE_BY_EVERYONE = {"/run/lock", "/tmp", "/var/tmp"}
LEFT_OVERS = (
    "/var/lib/apt/lists", "/var/cache/apt", "/var/cache/debconf", "/var/log", "/tmp", "/var/tmp", "/root", "/build",
    "/built", "/run/secrets", "/scripts", "/wheels", "/lock", "/efa", "/efa-software", "/packages", "/cuda",
    "/cuda-compat", "/finish", "/horovod", "/source-wheels", "/ssh", "/xla-cuda",
)  # fmt: skip
# What Debian's root account and debconf need; none of it is a cache that can be filled again. Empty files (logs of
# logins, apt's locks) come with Debian's packages and hold nothing.
KEPT = re.compile(r"/root/\.(bashrc|profile)|/var/cache/debconf/(config|passwords|templates)\.dat")
# A whole line, as in a key file: sources of TLS libraries hold the words in quotes.
PRIVATE_KEY_LINE = r"^-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY-----[[:space:]]*$"


def test_the_release_is_the_suite_of_the_buildspec(container: Container, image: Image) -> None:
    assert container.host.system_info.distribution == "debian"
    assert container.host.system_info.codename == image.variant.suite


def test_every_os_package_of_the_buildspec_is_installed(container: Container, image: Image) -> None:
    settings = image.variant.settings
    wanted = {*settings.base.os_packages, *settings.os_packages}
    listed = container.ask("dpkg-query", "--show", "--showformat", "${binary:Package} ${db:Status-Status}\n")
    pairs = [line.split() for line in listed.splitlines()]
    installed = {name.partition(":")[0] for name, status in pairs if status == "installed"}
    assert wanted <= installed
    assert {status for _, status in pairs} == {"installed"}, "packages removed but not purged, or half configured"


def test_packages_that_only_build_others_are_not_in_the_image(container: Container, image: Image) -> None:
    only_for_building = {*build_packages(image.variant.settings)} - {*image.variant.settings.os_packages}
    present = {name for name in only_for_building - {"gcc", "libc6-dev"} if container.host.package(name).is_installed}
    assert not present


def test_only_root_has_a_shell_and_nobody_a_password(container: Container) -> None:
    accounts = [line.split(":") for line in container.host.file("/etc/passwd").content_string.splitlines()]
    assert [name for name, _, uid, *_ in accounts if uid == "0"] == ["root"]
    no_shell = {"/usr/sbin/nologin", "/bin/sync", "/bin/false"}
    assert [name for name, *_, shell in accounts if shell not in no_shell] == ["root"]
    hashes = [line.split(":")[1] for line in container.host.file("/etc/shadow").content_string.splitlines()]
    assert set(hashes) <= {"*", "!", "!*"}


def test_no_lists_caches_logs_or_build_files_are_left(image: Image) -> None:
    with running(image.ref) as fresh:  # other tests have written to the one that they share
        present = [folder for folder in LEFT_OVERS if fresh.host.file(folder).exists]
        files = fresh.find("-type", "f", "-size", "+0", below=tuple(present))
    assert [file for file in files if not KEPT.fullmatch(file)] == []


def test_user_code_finds_its_folder_empty(container: Container) -> None:
    """The platform's toolkit does not unpack the user's source where /opt/ml/code has a file."""
    assert container.try_to("find", "/opt/ml", "-type", "f")[1] == ""


def test_only_sticky_temporary_folders_are_writable_by_everyone(container: Container) -> None:
    assert set(container.find("-perm", "-0002", "!", "-type", "l")) <= WRITABLE_BY_EVERYONE
    assert container.find("-perm", "-0002", "!", "-perm", "-1000", "!", "-type", "l") == []


def test_no_program_gives_its_caller_the_rights_of_another_user(container: Container) -> None:
    assert container.find("-type", "f", "-perm", "/6000") == []


def test_no_file_belongs_to_an_unknown_user_or_group(container: Container) -> None:
    assert container.find("(", "-nouser", "-o", "-nogroup", ")") == []


def test_there_is_no_private_key(container: Container) -> None:
    code, found, errors = container.try_to(
        "grep",
        "-rIlE",
        "--exclude-dir=proc",
        "--exclude-dir=sys",
        "--exclude-dir=dev",
        PRIVATE_KEY_LINE,
        "/",
        seconds=300,
    )
    assert (code, found) == (1, ""), errors  # 1: grep found nothing
    assert container.find("-name", "ssh_host_*_key*") == []
    assert container.find("-name", "id_rsa*", "-o", "-name", "id_ed25519*", "-o", "-name", "authorized_keys") == []


def test_certificate_authorities_are_there(container: Container) -> None:
    bundle = container.host.file("/etc/ssl/certs/ca-certificates.crt")
    assert bundle.content_string.count("BEGIN CERTIFICATE") > 100
