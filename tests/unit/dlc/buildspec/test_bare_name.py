"""Nothing installs dlc by its bare name from an index: whoever registers that name would get every user's secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlc.buildspec.matrix import load_variants
from dlc.buildspec.tool_pin import TOOL_LOCK, ToolPin, write_tool_lock
from dlc.cli.ci import SYSTEMS, write_file
from dlc.core.checkout import PROJECT, SourceFile, find_root
from harness.specimen import TORCH_ID, locked, unlocked

ROOT = find_root(Path(__file__).parent)
PLACES = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "Makefile",
    "docs",
    "examples",
    "scripts",
    "src",
    ".ci",
    ".github",
)
TEXTS = {".md", ".py", ".sh", ".yml", ".yaml", ".toml", ".txt", ".json", ""}
# An installer and its words, up to the end of the command.
INSTALLER = re.compile(
    r"(?:\b(?:pip3?|pipx|uv pip|uv tool|uv)\s+(?:install|run|add|download)|\buvx|\bpipx run)\b([^\n`;&|)]*)"
)
BARE = re.compile(r"dlc(\[[^\]]*\])?([<>=~!].*)?$")
SHA = "0" * 64


def list_bare_names(text: str) -> Iterator[str]:
    for match in INSTALLER.finditer(text.replace("\\\n", " ")):
        words = [word.strip("'\",.") for word in match[1].partition(", ")[0].split()]
        yield from (match[0] for word in words if BARE.fullmatch(word))


@pytest.mark.parametrize(
    "text",
    [
        "pip install dlc",
        "python -m pip install --upgrade 'dlc>=1.1'",
        'RUN pip3 install --quiet "dlc[keyless]==1.0.0" boto3',
        "pip install \\\n  dlc",
        "uv tool install dlc",
        "uvx dlc build",
        "pipx run dlc",
    ],
)
def test_a_bare_name_is_seen(text: str) -> None:
    assert list(list_bare_names(text))


@pytest.mark.parametrize(
    "text",
    [
        "pip install dlc-*.whl",
        "pip install ./tools/dlc-1.0.0-py3-none-any.whl",
        f"pip install --require-hashes -r {TOOL_LOCK}",
        "pip install uv==0.13.8` in the environment of dlc",
        "pip install boto3, in the environment of dlc",
        "pip install sigstore; dlc push",
    ],
)
def test_a_wheel_and_a_lock_are_no_bare_name(text: str) -> None:
    assert list(list_bare_names(text)) == []


def test_no_page_no_example_no_script_and_no_message_installs_dlc_by_its_name() -> None:
    paths = [path for place in PLACES for path in (ROOT / place, *(ROOT / place).rglob("*")) if path.is_file()]
    texts = {path: path.read_text(errors="replace") for path in paths if path.suffix in TEXTS}
    assert len(texts) > 500
    assert {str(path): found for path, text in texts.items() if (found := list(list_bare_names(text)))} == {}


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("is_checkout", [True, False])
def test_no_generated_file_of_a_ci_system_installs_dlc_by_its_name(system: str, *, is_checkout: bool) -> None:
    wheel = "tools/dlc-1.0.0-py3-none-any.whl"
    text = f"name: mine\nfrom: {TORCH_ID}\ntool: {{wheel: {wheel}, sha256: '{SHA}'}}\n"
    tree = locked({**unlocked(), PROJECT: SourceFile(text.encode())})
    tree = {**tree, TOOL_LOCK: SourceFile(write_tool_lock(ToolPin(wheel, SHA), "").encode())}
    written = write_file(system, load_variants(tree, [f"{TORCH_ID}-mine"]), tree, [], is_checkout=is_checkout)
    assert "dlc build" in written
    assert list(list_bare_names(written)) == []
