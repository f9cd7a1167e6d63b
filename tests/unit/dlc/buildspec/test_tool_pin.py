"""A project pins its dlc: which words name a wheel, and the lock fits them."""

from __future__ import annotations

import pytest

from dlc.buildspec.lockfile import explain_staleness, parse_versions
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.tool_pin import (
    TOOL_LOCK,
    ToolPin,
    read_named_tool,
    read_tool_pin,
    require_tool_pin,
    write_tool_lock,
)
from dlc.core.checkout import PROJECT, SourceFile, Tree
from dlc.core.errors import LockError, SpecError
from dlc.plan.plan import make_plan
from harness.specimen import TORCH_ID, locked, unlocked

SHA = "0123456789abcdef" * 4
WHEEL = "tools/dlc-1.0.0-py3-none-any.whl"
ADDRESS = "https://files.example/dlc/1.0.0/dlc-1.0.0-py3-none-any.whl"
NEEDS = "einops==0.8.1 \\\n    --hash=sha256:00\n"


def project(tool: str = "") -> Tree:
    text = f"name: mine\nfrom: {TORCH_ID}\n{tool}"
    return {**unlocked(), PROJECT: SourceFile(text.encode())}


def naming(wheel: str, digest: str = SHA) -> Tree:
    return project(f'tool: {{wheel: "{wheel}", sha256: "{digest}"}}\n')


def with_lock(tree: Tree, text: str) -> Tree:
    return {**tree, TOOL_LOCK: SourceFile(text.encode())}


@pytest.mark.parametrize(
    ("wheel", "version", "line"),
    [
        (WHEEL, "1.0.0", f"./{WHEEL} \\"),
        ("dlc-1.0.0+g0123-py3-none-any.whl", "1.0.0+g0123", "./dlc-1.0.0+g0123-py3-none-any.whl \\"),
        (ADDRESS, "1.0.0", f"dlc @ {ADDRESS} \\"),
        (ADDRESS.replace("1.0.0", "1.0.0%2Bg01"), "1.0.0+g01", f"dlc @ {ADDRESS.replace('1.0.0', '1.0.0%2Bg01')} \\"),
    ],
)
def test_a_path_in_the_project_or_an_address_names_a_wheel(wheel: str, version: str, line: str) -> None:
    pin = read_named_tool(naming(wheel))
    assert pin == ToolPin(wheel, SHA)
    assert pin.version == version
    assert pin.requirement == f"{line}\n    --hash=sha256:{SHA}\n"


@pytest.mark.parametrize(
    "wheel",
    [
        "http://files.example/dlc-1.0.0-py3-none-any.whl",
        "https://me:hunter2@files.example/dlc-1.0.0-py3-none-any.whl",
        "https://hunter2@files.example/dlc-1.0.0-py3-none-any.whl",
        "https://files.example/dlc-1.0.0-py3-none-any.whl?token=hunter2",
        f"{ADDRESS}#sha256={SHA}",
        "file:///srv/dlc-1.0.0-py3-none-any.whl",
        "/srv/dlc-1.0.0-py3-none-any.whl",
        "../dlc-1.0.0-py3-none-any.whl",
        "tools/../../dlc-1.0.0-py3-none-any.whl",
        "./tools/dlc-1.0.0-py3-none-any.whl",
        "-r/dlc-1.0.0-py3-none-any.whl",
        "tools/a b/dlc-1.0.0-py3-none-any.whl",
        "tools/dlc-1.0.0.tar.gz",
        "tools/other-1.0.0-py3-none-any.whl",
        "dlc==1.0.0",
        "dlc",
        "",
    ],
)
def test_no_other_word_names_a_wheel_and_no_password_is_shown(wheel: str) -> None:
    with pytest.raises(
        SpecError, match=r"dlc\.yml:3.*tool\.wheel: expected a path below this folder, or an https"
    ) as it:
        read_named_tool(naming(wheel))
    assert "hunter2" not in str(it.value)


@pytest.mark.parametrize("digest", ["", SHA[:63], SHA.upper(), f"sha256:{SHA}"])
def test_a_wheel_without_its_hash_is_refused(digest: str) -> None:
    with pytest.raises(SpecError, match=r"tool\.sha256: expected 64 hexadecimal digits"):
        read_named_tool(naming(WHEEL, digest))
    with pytest.raises(SpecError, match=r"tool\.sha256"):
        read_named_tool(project(f"tool: {{wheel: {WHEEL}}}\n"))


def test_the_pin_is_read_with_its_lock() -> None:
    pin = ToolPin(WHEEL, SHA)
    tree = with_lock(naming(WHEEL), write_tool_lock(pin, NEEDS))
    assert read_tool_pin(tree) == require_tool_pin(tree) == pin
    assert parse_versions(tree[TOOL_LOCK].data.decode()) == {"einops": "0.8.1"}


@pytest.mark.parametrize(
    "text", ["", NEEDS, write_tool_lock(ToolPin(WHEEL, "f" * 64), NEEDS), write_tool_lock(ToolPin(ADDRESS, SHA), NEEDS)]
)
def test_a_lock_of_another_dlc_is_an_error_that_names_both(text: str) -> None:
    with pytest.raises(
        LockError, match=rf"locks/tool\.txt: expected \./{WHEEL} --hash=sha256:{SHA}, as dlc\.yml"
    ) as it:
        read_tool_pin(with_lock(naming(WHEEL), text))
    assert it.value.remedy == "dlc lock"
    with pytest.raises(LockError, match="found no such file"):
        read_tool_pin(naming(WHEEL))


def test_a_project_without_a_pin_works_and_what_needs_one_says_how_to_get_it() -> None:
    assert read_tool_pin(project()) is None
    assert read_tool_pin(unlocked()) is None
    with pytest.raises(SpecError, match=r"dlc\.yml: expected `tool`, the wheel of dlc") as it:
        require_tool_pin(project())
    assert it.value.remedy.startswith("dlc init --tool FILE")


def test_the_pin_and_its_lock_are_in_no_content_key_and_no_lock_of_an_image() -> None:
    plain = locked(project())
    pinned = {**locked(naming(WHEEL)), TOOL_LOCK: SourceFile(write_tool_lock(ToolPin(WHEEL, SHA), NEEDS).encode())}
    before, after = ({target.id: target.key for target in make_plan(tree).targets} for tree in (plain, pinned))
    assert before == after
    assert {explain_staleness(pinned, variant) for variant in load_variants(pinned)} == {""}
