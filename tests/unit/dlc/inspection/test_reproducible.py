"""inspection.reproducible: which bake file a rebuild runs, what is said of two archives that should be equal."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from dlc.cli.verify_reproducible import as_text
from dlc.core.errors import SpecError
from dlc.image_build.bake_file import HostInputs
from dlc.inspection.archive import Archive, Entry, Layer
from dlc.inspection.reproducible import (
    LOWEST,
    compare_with_built,
    compare_with_pushed,
    find_differences,
    hash_config,
    mark_layers,
    remove_mark,
    render_rebuild,
)
from dlc.plan.plan import make_plan
from harness.specimen import TORCH_ID, specimen

FILE = Entry("file", 3, 0o644, "0:0", 7, "", "aa")
PLAN = make_plan(specimen(), [TORCH_ID])
INPUTS = HostInputs(
    {c: Path("/cache", str(c)) for target in PLAN.targets for c in (target.context, *target.contexts.values())},
    {target.dockerfile: Path("/cache", target.dockerfile) for target in PLAN.targets},
)


def archive(digest: str, *layers: dict[str, Entry], **config: object) -> Archive:
    digests = [str(sorted(entries.items())) for entries in layers]
    steps = [Layer(name, f"RUN {n}", entries) for n, (name, entries) in enumerate(zip(digests, layers, strict=True))]
    return Archive(digest, config, tuple(steps))


def rendered(*, cached: bool) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(
        render_rebuild(PLAN, INPUTS, "dlc-rebuild:x", "type=docker", epoch=0, revision="r", cached=cached)
    )
    return value


def test_every_target_parents_included_is_built_without_cache() -> None:
    targets = rendered(cached=False)["target"]
    assert targets.keys() == rendered(cached=True)["target"].keys()
    assert len(targets) > len(PLAN.selected)
    assert all(target["no-cache"] for target in targets.values())


def test_comparison_with_cached_steps_uses_them() -> None:
    assert not any("no-cache" in target for target in rendered(cached=True)["target"].values())


def write_dockerfiles(folder: Path, **texts: str) -> HostInputs:
    for name, text in texts.items():
        (folder / name).write_text(text)
    return HostInputs(dockerfiles={f"docker/{name}/Dockerfile": folder / name for name in texts})


def test_a_file_of_random_content_lies_below_the_lowest_layer(tmp_path: Path) -> None:
    inputs = write_dockerfiles(tmp_path, base=f"{LOWEST}COPY --from=tools /skeleton /\n", pytorch="FROM lowest\n")
    marks = set()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        marked = mark_layers(inputs, tmp_path / name)
        text = marked.dockerfiles["docker/base/Dockerfile"].read_text()
        assert text == f"{LOWEST}COPY --from=rebuild-mark . /\nCOPY --from=tools /skeleton /\n"
        assert marked.dockerfiles["docker/pytorch/Dockerfile"] == tmp_path / "pytorch"
        [mark] = (tmp_path / name / "rebuild-mark").iterdir()
        marks.add(mark.read_text())
        assert mark.stat().st_mtime == 0
    assert len(marks) == 2


def test_recipes_without_the_lowest_layers_stage_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="expected one Dockerfile with a line `FROM scratch AS skeleton`, found 0"):
        mark_layers(write_dockerfiles(tmp_path, base="FROM scratch AS lowest\n"), tmp_path)


def test_every_target_gets_the_context_of_the_mark() -> None:
    text = render_rebuild(PLAN, INPUTS, "dlc-rebuild:x", "type=docker", epoch=0, revision="r", cached=False,
                          contexts={"rebuild-mark": "/cache/mark"})  # fmt: skip
    targets = json.loads(text)["target"].values()
    assert {target["contexts"]["rebuild-mark"] for target in targets} == {"/cache/mark"}


def test_an_image_without_its_mark_has_one_layer_and_one_step_less() -> None:
    made = archive("d", {"mark": FILE}, {"a": FILE}, history=[{"created_by": "COPY . /"}, {"created_by": "RUN it"}],
                   rootfs={"type": "layers", "diff_ids": ["sha256:mark", "sha256:a"]})  # fmt: skip
    without = remove_mark(made)
    assert without.layers == made.layers[1:]
    assert without.config == {
        "history": [{"created_by": "RUN it"}],
        "rootfs": {"type": "layers", "diff_ids": ["sha256:a"]},
    }


def test_the_digest_of_a_configuration_is_that_of_the_bytes_that_go_writes() -> None:
    written = b'{"b":{"Cmd":["a \\u003c b \\u0026\\u0026 c \\u003e d","caf\xc3\xa9"]},"a":[1,true,null]}'
    assert hash_config(json.loads(written)) == f"sha256:{hashlib.sha256(written).hexdigest()}"


def test_the_image_alone_is_exported_under_a_name_of_its_own() -> None:
    targets = rendered(cached=False)["target"].values()
    assert [target["output"] for target in targets if "output" in target] == [["type=docker"]]
    assert [target["tags"] for target in targets if "tags" in target] == [["dlc-rebuild:x"]]


def test_equal_digests_are_identical() -> None:
    assert find_differences(archive("d", {"a": FILE}), archive("d", {"a": FILE})) == ()


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        ({"a": FILE}, {}, "only in the first image"),
        ({}, {"a": FILE}, "only in the second image"),
        ({"a": FILE}, {"a": Entry("file", 4, 0o644, "0:0", 7, "", "bb")}, "content (3 -> 4 bytes)"),
        ({"a": FILE}, {"a": Entry("file", 3, 0o600, "0:0", 7, "", "aa")}, "mode (420 -> 384)"),
        ({"a": FILE}, {"a": Entry("file", 3, 0o644, "0:0", 8, "", "aa")}, "modified (7 -> 8)"),
    ],
)
def test_a_difference_is_told_by_layer_path_and_kind(one: dict[str, Entry], other: dict[str, Entry], what: str) -> None:
    [found] = find_differences(archive("d", {"same": FILE}, one), archive("e", {"same": FILE}, other))
    assert (found.layer, found.command, found.path, found.what) == (1, "RUN 1", "a", what)


def test_layers_that_only_one_has_and_other_configurations_are_differences() -> None:
    first, second = archive("d", {"a": FILE}, config={"Env": ["A=1"]}), archive("e", config={"Env": ["A=2"]})
    layer, config = find_differences(first, second)
    assert layer.what == "only in the first image"
    assert (config.layer, config.path) == (-1, "config")


def test_entries_in_another_order_are_a_difference() -> None:
    one, other = archive("d", {"a": FILE}), archive("e", {"a": FILE})
    other = Archive("e", {}, (Layer("other", "RUN 0", {"a": FILE}),))
    [found] = find_differences(one, other)
    assert "order" in found.what


def test_the_report_says_identical_or_lists_files() -> None:
    one, other = archive("sha256:1", {"a": FILE}), archive("sha256:2", {"b": FILE})
    assert as_text(TORCH_ID, one, ()) == f"{TORCH_ID}  identical  sha256:1"
    text = as_text(TORCH_ID, one, find_differences(one, other))
    assert "2 differences" in text
    assert "    /a  only in the first image" in text


def test_the_built_image_has_the_layers_of_the_rebuild_or_the_first_that_differs_is_named() -> None:
    rebuilt = archive("d", {"a": FILE}, {"b": FILE})
    own = [layer.digest for layer in rebuilt.layers]
    assert compare_with_built(rebuilt, own) == ()
    [changed] = compare_with_built(rebuilt, [own[0], "sha256:other"])
    assert (changed.layer, changed.command) == (1, "RUN 1")
    assert "the engine's image has sha256:other" in changed.what
    assert [found.layer for found in compare_with_built(rebuilt, [*own, "sha256:more"])] == [2]


def test_a_pushed_image_is_compared_by_its_configuration() -> None:
    rebuilt = archive("d", {"a": FILE}, {"b": FILE}, created="2026-11-27", rootfs={"type": "layers"})
    own = [layer.digest for layer in rebuilt.layers]
    pushed = {"created": "2026-11-27", "rootfs": {"diff_ids": own}}
    assert compare_with_pushed(rebuilt, pushed) == ()
    other = {"created": "2026-11-28", "rootfs": {"diff_ids": [*own[:1], "sha256:other"]}}
    layer, config = compare_with_pushed(rebuilt, other)
    assert (layer.layer, config.path) == (1, "created")
    assert layer.what == f"the pushed image has sha256:other, this build {own[1]}"
    assert config.what == "2026-11-28 -> 2026-11-27"
