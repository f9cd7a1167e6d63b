"""A package that the buildspec names for an index comes from there or from the user's own places, others never do.

Real servers on this host's loopback, the real resolver and the real installer.
"""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_server import Reply, serving

from dlc.buildspec.locks import resolve
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.variant import IndexedPackages
from dlc.core.environment import hide_password, mirror_variable, read_own_indexes, resolve_index
from dlc.core.errors import LockError, PackageIndexError, SpecError, UsageError
from dlc.image_build import wheels
from harness.package_index import PackageIndex
from harness.specimen import PYTORCH, PYTORCH_PATH, changed, specimen, unlocked

LOCAL = "dlc-local==2.13.0+cpu"
VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "PIP_INDEX_URL",
             "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "DLC_INDEX_SPECIAL")  # fmt: skip
NOWHERE = "http://127.0.0.1:9/simple"


def server(folder: Path, host: str = "127.0.0.1") -> Iterator[PackageIndex]:
    folder.mkdir()
    found = PackageIndex(folder, host)
    found.start()
    yield found
    found.stop()


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary host, but that nothing is asked of the network."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("UV_NO_CACHE", "1")  # a server of an earlier test may have had the same port
    resolve._why_lacking.cache_clear()


@pytest.fixture
def public(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """In place of the public index: it has the ordinary package only."""
    for found in server(tmp_path / "public"):
        found.add("dlc-ordinary", "1.0")
        monkeypatch.setenv("UV_DEFAULT_INDEX", found.address)
        yield found


@pytest.fixture
def special(tmp_path: Path) -> Iterator[PackageIndex]:
    """The index that the buildspec names: it has the local version, and an ordinary package that nobody may take."""
    for found in server(tmp_path / "special"):
        found.add("dlc-local", "2.13.0+cpu")
        found.add("dlc-ordinary", "9.0", "not the one")
        yield found


def indexed(address: str) -> IndexedPackages:
    return IndexedPackages("special", address, ("dlc-local",), "3.11", "2.36")


def request(address: str, *requirements: str) -> resolve.LockRequest:
    return resolve.LockRequest(
        requirements or (LOCAL,), ("dlc-ordinary",), (), (), "3.11", "2.36", "sha256:00", (indexed(address),)
    )


def packages_asked(index: PackageIndex) -> set[str]:
    return {path.split("/")[2] for path in index.asked if path.startswith("/simple/")}


def test_a_lock_takes_the_named_packages_from_the_index_and_no_other(
    public: PackageIndex, special: PackageIndex
) -> None:
    texts = resolve.make_lock(request(special.address))
    assert "dlc-local==2.13.0+cpu" in texts["framework.txt"]
    assert "dlc-ordinary==1.0" in texts["training.txt"]
    assert packages_asked(special) == {"dlc-local"}


def test_the_users_mirror_stands_in_for_the_index(
    public: PackageIndex, special: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLC_INDEX_SPECIAL", special.address)
    assert "dlc-local==2.13.0+cpu" in resolve.make_lock(request(NOWHERE))["framework.txt"]


@pytest.mark.parametrize("shape", ["wheels", "index", "address"])
def test_a_folder_stands_in_for_the_index(
    shape: str, public: PackageIndex, special: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = special.folder / "simple/dlc-local/index.html"
    page.write_text(page.read_text().replace("/files/", "../../files/"))
    folder = special.folder / ("files" if shape == "wheels" else "simple")
    monkeypatch.setenv("DLC_INDEX_SPECIAL", folder.as_uri() if shape == "address" else str(folder))
    assert "dlc-local==2.13.0+cpu" in resolve.make_lock(request(NOWHERE))["framework.txt"]
    assert fetched(special.folder / "built", NOWHERE, special) == "dlc_local-2.13.0+cpu-py3-none-any.whl"


@pytest.mark.parametrize("variable", ["UV_FIND_LINKS", "PIP_FIND_LINKS", "UV_INDEX", "PIP_EXTRA_INDEX_URL"])
def test_the_users_own_places_come_first_and_the_index_is_not_asked(
    variable: str, public: PackageIndex, special: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for own in server(tmp_path / "own"):
        own.add("dlc-local", "2.13.0+cpu")
        monkeypatch.setenv(variable, str(own.folder / "files") if "LINKS" in variable else own.address)
        assert "dlc-local==2.13.0+cpu" in resolve.make_lock(request(special.address))["framework.txt"]
        if "LINKS" not in variable:
            fetched(tmp_path / "built", special.address, own)
    assert special.asked == []


def test_a_version_that_the_users_folder_does_not_have_comes_from_the_index(
    public: PackageIndex, special: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for own in server(tmp_path / "own"):
        own.add("dlc-local", "2.12.0+cpu")
        monkeypatch.setenv("UV_FIND_LINKS", str(own.folder / "files"))
        assert "dlc-local==2.13.0+cpu" in resolve.make_lock(request(special.address))["framework.txt"]


def test_another_build_of_the_same_version_on_the_default_index_is_not_taken(
    public: PackageIndex, special: PackageIndex
) -> None:
    public.add("dlc-local", "2.13.0", "for another device")
    special.add("dlc-local", "2.13.0", "the right one")
    resolve.make_lock(request(special.address, "dlc-local==2.13.0"))
    assert "dlc-local" not in packages_asked(public)


def test_a_folder_of_the_user_without_the_package_leaves_it_to_the_index(
    public: PackageIndex, special: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever version is asked for, and whatever the default index has under that name."""
    public.add("dlc-local", "2.13.0", "for another device")
    (tmp_path / "own").mkdir()
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "own"))
    assert "dlc-local==2.13.0+cpu" in resolve.make_lock(request(special.address, "dlc-local"))["framework.txt"]
    assert "dlc-local" not in packages_asked(public)


def test_a_version_that_is_nowhere_says_where_it_was_looked_for(public: PackageIndex, special: PackageIndex) -> None:
    with pytest.raises(LockError) as caught:
        resolve.make_lock(request(special.address, "dlc-local==2.14.0+cpu"))
    assert f"dlc-local: looked in {public.address}, special ({special.address})" in caught.value.message
    assert "DLC_INDEX_SPECIAL=ADDRESS" in caught.value.remedy
    assert "UV_FIND_LINKS" in caught.value.remedy


def test_an_index_that_does_not_answer_is_an_error_of_its_own_without_its_password(
    public: PackageIndex, special: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLC_INDEX_SPECIAL", "http://me:secret@127.0.0.1:9/simple")
    with pytest.raises(PackageIndexError) as locking:
        resolve.make_lock(request(special.address))
    assert "special (http://127.0.0.1:9/simple)" in locking.value.message
    with pytest.raises(PackageIndexError) as building:
        fetched(special.folder / "built", special.address, special)
    assert "http://127.0.0.1:9/simple: does not answer" in building.value.message
    assert "secret" not in f"{locking.value} {building.value}"


@pytest.mark.parametrize("status", [500, 503, 429])
def test_an_index_that_fails_is_not_said_to_lack_the_package(status: int, special: PackageIndex) -> None:
    with serving(lambda _: Reply(status)) as failing:
        address = f"{failing.url}/simple/"
        with pytest.raises(PackageIndexError):
            resolve.make_lock(request(address))
        with pytest.raises(PackageIndexError, match=f"does not answer .*{status}"):
            fetched(special.folder / "built", address, special)


@pytest.mark.parametrize(
    "answer",
    [Reply(500), Reply(200, {"Content-Type": "text/plain"}, b"maintenance"), Reply(0)],
    ids=["500", "no page of an index", "closed connection"],
)
def test_the_users_own_index_that_fails_is_named_and_no_other_is_asked_instead(
    answer: Reply, public: PackageIndex, special: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(lambda _: answer) as failing:
        own = failing.url.replace("://", "://me:secret@")
        monkeypatch.setenv("UV_INDEX", f"{own}/simple/")
        with pytest.raises(PackageIndexError) as caught:
            resolve.make_lock(request(special.address))
    assert f"{failing.url}/simple/" in caught.value.message
    assert "secret" not in str(caught.value)
    assert special.asked == []


@pytest.mark.parametrize(
    "page",
    [Reply(403), Reply(200, {"Content-Type": "text/html"}, b"<html><body>Please log in</body></html>")],
    ids=["403, as some answer for what they do not have", "another page"],
)
def test_what_the_users_own_index_answered_is_told_beside_the_failure_of_the_other(
    page: Reply, public: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(lambda _: page) as own:
        monkeypatch.setenv("UV_INDEX", f"{own.url}/simple/")
        with pytest.raises((LockError, PackageIndexError)) as caught:
            resolve.make_lock(request(NOWHERE))
    assert f"{LOCAL}: your own folders and indexes: " in caught.value.message
    assert own.url in caught.value.message


def fetch_locked(folder: Path, address: str, origin: PackageIndex) -> None:
    """Let a build get what a lock of the wheel that `origin` has names."""
    page = (origin.folder / "simple/dlc-local/index.html").read_text()
    digest = page.partition("#sha256=")[2].partition('"')[0]
    text = f"{LOCAL} \\\n    --hash=sha256:{digest}\ndlc-ordinary==1.0 \\\n    --hash=sha256:00\n"
    (folder / "wheels").mkdir(parents=True, exist_ok=True)
    wheels.add_from_indexes(text, [indexed(address)], folder / "wheels", folder / "cache")


def fetched(folder: Path, address: str, origin: PackageIndex) -> str:
    """The name of the wheel that a build gets so."""
    fetch_locked(folder, address, origin)
    (wheel,) = (folder / "wheels").iterdir()
    return wheel.name


def test_a_build_gets_the_wheel_by_the_locks_hash_and_asks_for_nothing_else(
    public: PackageIndex, special: PackageIndex, tmp_path: Path
) -> None:
    assert fetched(tmp_path / "built", special.address, special) == "dlc_local-2.13.0+cpu-py3-none-any.whl"
    assert packages_asked(special) == {"dlc-local"}


def test_an_index_without_tls_will_do_since_the_lock_has_the_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Loopback as an address that installers do not take for loopback.
    monkeypatch.setenv("no_proxy", "0.0.0.0")
    monkeypatch.setenv("NO_PROXY", "0.0.0.0")
    for plain in server(tmp_path / "plain", "0.0.0.0"):
        plain.add("dlc-local", "2.13.0+cpu")
        assert fetched(tmp_path / "built", plain.address, plain) == "dlc_local-2.13.0+cpu-py3-none-any.whl"


def test_what_a_build_fetched_once_is_not_asked_for_again(special: PackageIndex, tmp_path: Path) -> None:
    fetched(tmp_path / "one", special.address, special)
    special.asked.clear()
    (tmp_path / "two").mkdir()
    (tmp_path / "one/cache").rename(tmp_path / "two/cache")
    fetched(tmp_path / "two", special.address, special)
    assert special.asked == []


@pytest.mark.parametrize(
    ("tags", "taken"),
    [
        ("cp313-cp313-linux_x86_64", "dlc_local-2.13.0+cpu-py3-none-any.whl"),  # of the plan's other image
        ("cp311-cp311-linux_x86_64", None),
        ("cp39-abi3-linux_x86_64", None),
        ("py2.py3-none-any", None),
    ],
)
def test_a_wheel_for_another_python_does_not_stand_for_this_images(
    tags: str, taken: str | None, special: PackageIndex, tmp_path: Path
) -> None:
    """The images of one build share a folder of wheels."""
    there = f"dlc_local-2.13.0+cpu-{tags}.whl"
    (tmp_path / "built/wheels").mkdir(parents=True)
    (tmp_path / "built/wheels" / there).touch()
    fetch_locked(tmp_path / "built", special.address, special)
    assert {path.name for path in (tmp_path / "built/wheels").iterdir()} == {there, *([taken] if taken else [])}


def test_a_wheel_with_another_hash_is_refused_with_all_places_that_were_asked(
    special: PackageIndex, tmp_path: Path
) -> None:
    for other in server(tmp_path / "other"):
        other.add("dlc-local", "2.13.0+cpu", "tampered with")
        with pytest.raises(LockError) as caught:
            fetched(tmp_path / "built", other.address, special)
        assert "dlc-local==2.13.0+cpu: expected a wheel with the lock's hash, found none" in caught.value.message
        assert f"folders: none\n  {other.address}: " in caught.value.message
        assert "DLC_INDEX_SPECIAL" in caught.value.remedy


def test_an_address_may_move_without_a_new_lock_and_the_packages_may_not() -> None:
    def variant(address: str, packages: str) -> str:
        text = f"{PYTORCH}indexes: {{special: {{address: '{address}', packages: [{packages}]}}}}\n"
        return load_variants(changed(unlocked(), PYTORCH_PATH, text), ["pytorch-*"])[0].lock_digest()

    assert variant("https://a.example", "torch") == variant("https://b.example/x", "torch")
    assert variant("https://a.example", "torch") != variant("https://a.example", "torch, numpy")
    assert variant("https://a.example", "torch") != load_variants(specimen(), ["pytorch-*"])[0].lock_digest()


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ("{address: 'https://me:secret@a.example', packages: [torch]}", "without credentials"),
        ("{address: nowhere, packages: [torch]}", "an address (http, https, file)"),
        ("{address: 'https://a.example', packages: []}", "indexes.special.packages"),
        ("{adress: 'https://a.example', packages: [torch]}", "did you mean 'address'?"),
    ],
)
def test_a_wrong_index_is_an_error_with_its_place(index: str, words: str) -> None:
    text = f"{PYTORCH}indexes: {{special: {index}}}\n"
    with pytest.raises(SpecError) as caught:
        load_variants(changed(unlocked(), PYTORCH_PATH, text))
    assert f"{PYTORCH_PATH}:7:" in caught.value.message
    assert words in caught.value.message


def test_the_users_indexes_are_those_of_either_client_with_uvs_before_pips() -> None:
    found = read_own_indexes(
        {"PIP_INDEX_URL": "https://pip.example", "UV_INDEX": "name=https://one.example https://two.example"}
    )
    assert (found.default, found.extra) == ("https://pip.example", ("https://one.example", "https://two.example"))
    assert read_own_indexes({"PIP_INDEX_URL": "https://pip.example", "UV_INDEX_URL": "https://uv.example"}).all == (
        "https://uv.example",
    )


def test_a_mirror_is_named_as_its_index_and_is_shown_without_its_password() -> None:
    assert mirror_variable("pytorch-cpu") == "DLC_INDEX_PYTORCH_CPU"
    environment = {"DLC_INDEX_PYTORCH_CPU": "https://me:secret@mirror.example:8443/cpu?a=b"}
    address = resolve_index("pytorch-cpu", "https://index.example", environment)
    assert hide_password(address) == "https://mirror.example:8443/cpu?a=b"
    assert resolve_index("pytorch-cpu", "https://index.example", {}) == "https://index.example"


@pytest.mark.parametrize(
    "place",
    ["no/such/folder", "~no-such-user/x", "file:///no/such/folder", "ftp://a", "http://", "http://[a", "http://a:b"],
)
def test_a_mirror_that_is_no_place_is_an_error_that_names_its_variable(place: str) -> None:
    with pytest.raises(UsageError, match=r"^DLC_INDEX_SPECIAL=") as caught:
        resolve_index("special", "https://index.example", {"DLC_INDEX_SPECIAL": place})
    assert place in caught.value.message


def test_an_own_index_that_is_no_address_is_an_error_without_its_password() -> None:
    with pytest.raises(UsageError, match="expected the address of a package index") as caught:
        read_own_indexes({"UV_INDEX": "name=http://me:hunter2@[a"})
    assert "hunter2" not in str(caught.value)
    assert "UV_INDEX" in caught.value.remedy


def test_a_folder_that_is_named_and_not_there_ends_no_lock(
    public: PackageIndex, special: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_FIND_LINKS", "/no/such/folder,http://127.0.0.1:1/page.html")
    assert "dlc-ordinary==1.0" in resolve.make_lock(request(special.address))["training.txt"]


def test_a_mirror_that_leads_in_a_circle_is_said_in_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Circle(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", self.path)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Circle) as server:
        threading.Thread(target=server.serve_forever).start()
        address = f"http://127.0.0.1:{server.server_port}/simple"
        lock_text = f"{LOCAL} --hash=sha256:{'0' * 64}\n"
        try:
            with pytest.raises(PackageIndexError, match=r"does not answer \(.*TooManyRedirects"):
                wheels.add_from_indexes(lock_text, [indexed(address)], tmp_path, tmp_path / "cache")
        finally:
            server.shutdown()
