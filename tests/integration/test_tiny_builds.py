"""What a build must get right whatever it builds, asked of the smallest image: a few files onto nothing."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlc.inspection.archive import read_archive
from harness import tiny_build
from harness.engine import connect, docker

pytestmark = pytest.mark.integration

SECRETS = {"index": "index-hush", "extra": "extra-hush", "netrc": "netrc-hush", "proxy": "proxy-hush"}
MOUNTS = " ".join(f"--mount=type=secret,id={name},required=true" for name in ("index_url", "extra_index_url", "netrc"))


@pytest.fixture
def ref(engine: None) -> Iterator[str]:
    name = f"dlc-tiny-{uuid.uuid4().hex[:12]}:1"
    yield name
    docker("image", "rm", "--force", name, check=False)


def saved(ref: str, folder: Path) -> Path:
    path = folder / f"{uuid.uuid4().hex}.tar"
    docker("save", "--output", str(path), ref)
    return path


def test_a_changed_file_of_the_same_size_is_built_into_the_image(ref: str, tmp_path: Path) -> None:
    """BuildKit, which keeps the context of the build before, sends a file only if its size or its time differs."""
    same = uuid.uuid4().hex.encode()  # no run before has it in the engine's cache
    found = []
    for text in (b"one " + same, b"two " + same):
        tiny_build.build(connect(), ref, {"launcher.py": text}, tmp_path / "cache")
        [layer] = read_archive(saved(ref, tmp_path)).layers
        found.append(text.split()[0] in saved(ref, tmp_path).read_bytes())
        assert list(layer.entries) == ["launcher.py"]
    assert found == [True, True]


def test_no_secret_of_a_build_is_in_a_layer_the_history_the_log_or_the_cache(
    ref: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc, cache = tmp_path / "netrc", tmp_path / "cache"
    netrc.write_text(f"machine index.invalid login me password {SECRETS['netrc']}\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"https://me:{SECRETS['index']}@index.invalid/simple/")
    monkeypatch.setenv("UV_INDEX", f"https://me:{SECRETS['extra']}@extra.invalid/simple/")
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:{SECRETS['proxy']}@proxy.invalid:3128")
    files = {"program": tiny_build.program(tiny_build.ENDS), "once": uuid.uuid4().bytes}
    recipe = f'{tiny_build.RECIPE}RUN {MOUNTS} ["/program"]\n'
    log = tiny_build.build(connect(), ref, files, cache, recipe)
    assert '["/program"]' in log.read_text()
    path = saved(ref, tmp_path)
    traces = {"image": path.read_bytes(), "inspect": docker("image", "inspect", ref).stdout.encode()}
    traces["history"] = docker("history", "--no-trunc", "--format", "{{json .}}", ref).stdout.encode()
    assert json.loads(traces["history"].splitlines()[0])["CreatedBy"].startswith("RUN ")
    traces |= {str(file): file.read_bytes() for file in cache.rglob("*") if file.is_file()}
    for name, secret in SECRETS.items():
        assert [place for place, trace in traces.items() if secret.encode() in trace] == [], name
