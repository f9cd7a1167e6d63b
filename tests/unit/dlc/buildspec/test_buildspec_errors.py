"""Every mistake in every buildspec file is in one report: file:line:col, path, expected, found, a near miss."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dlc.buildspec.matrix import load_variants
from dlc.core.checkout import SourceFile, Tree, find_root, read_tree
from dlc.core.errors import SpecError, UsageError
from harness.specimen import COMPAT, DEFAULTS, PINS, PYTORCH, PYTORCH_PATH, changed, unlocked

TENSORFLOW_PATH = "buildspec/tensorflow/2.21-training.yml"


def report(tree: Tree, *sets: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load_variants(tree, (), sets)
    return caught.value.message.splitlines()


def with_pytorch(old: str, new: str) -> Tree:
    assert old in PYTORCH
    return changed(unlocked(), PYTORCH_PATH, PYTORCH.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("os_packages", "os_package", "4:1: os_package: expected one of base, budget, build_packages, "
         "by_platform, cuda_build_packages, cuda_compat, device, efa, env, extras, flavor, indexes, labels, lists, "
         "os_packages, packages, platform, platforms, python, repository, suites, user, "
         "found unknown key 'os_package'; did you mean 'os_packages'?"),
        ("[g++]", "g++", "4:14: os_packages: expected a list, found 'g++'"),
        ("[g++]", "[g++, -y]", "4:20: os_packages[1]: expected a Debian package name, found '-y'"),
        ("[g++]", "", "4:13: os_packages: expected a list, found nothing"),
        ("os_packages: [g++]", "base: debian", "4:7: base: expected a mapping, found 'debian'"),
        ("os_packages: [g++]", "base: {imag: x}", "4:8: base.imag: expected one of image, os_packages, "
         "found unknown key 'imag'; did you mean 'image'?"),
        ("os_packages: [g++]", "python: 3.1x", "4:9: python: expected a Python version such as 3.11, found '3.1x'"),
        ("os_packages: [g++]", "python: 3.12", "4:9: python: expected one that a suite packages: 3.9, 3.11, 3.13, "
         "found '3.12'"),
        ("os_packages: [g++]", "suites: {'3.x': sid}", "4:10: suites.3.x: expected a Python version such as 3.11, "
         "found '3.x'"),
        ("os_packages: [g++]", "job: x", "4:1: job: expected each key once, found it also at "
         f"{PYTORCH_PATH}:3:1"),
        ("torch==2.13.0+cpu", "torch==2.12.0", "6:28: packages.framework[0]: expected torch==2.13.*, "
         "the file's version, found 'torch==2.12.0'"),
        ("torch==2.13.0+cpu", "torch>=2", "6:28: packages.framework[0]: expected NAME or NAME==VERSION, "
         "found 'torch>=2'"),
        ("- packages", "- framework: jax\n    packages", "6:5: framework: expected one of base, budget, "
         "build_packages, by_platform, cuda_build_packages, cuda_compat, device, efa, env, extras, flavor, indexes, "
         "labels, lists, os_packages, packages, platform, platforms, python, repository, suites, user, "
         "found unknown key 'framework'"),
        ("framework: pytorch", "framework: pytorsh", "1:12: framework: expected 'pytorch', the folder's name, "
         "found 'pytorsh'"),
        ("version: \"2.13\"", "version: two", "2:10: version: expected a version series such as 2.13, found 'two'"),
    ],
)  # fmt: skip
def test_one_mistake_is_reported_where_it_is(old: str, new: str, line: str) -> None:
    assert f"{PYTORCH_PATH}:{line}" in report(with_pytorch(old, new))


def test_the_mistakes_of_all_files_are_in_one_report_in_file_order() -> None:
    tree = with_pytorch("job: training", "job: [a]")
    tree = changed(tree, "buildspec/pins.yml", PINS.replace("2.4.6", "'>=2'"))
    tree = changed(tree, "buildspec/compat.yml", COMPAT.replace("why: its", "wy: its"))
    tree = changed(tree, "buildspec/defaults.yml", DEFAULTS.replace("repository: dlc", "repository: DLC"))
    tree = changed(tree, TENSORFLOW_PATH, "variants: [")
    lines = report(tree)
    starts = ["buildspec/compat.yml:5:5", "buildspec/compat.yml:7:5", "buildspec/defaults.yml:1:13"]
    starts += ["buildspec/pins.yml:2:10", f"{PYTORCH_PATH}:3:6", f"{TENSORFLOW_PATH}:1:12"]
    assert len(lines) == len(starts)
    for start, line in zip(starts, lines, strict=True):
        assert line.startswith(start)


def test_a_mistake_shared_by_many_variants_is_reported_once() -> None:
    variants = "".join(
        f"\n  - {{device: cu{n}, packages: {{framework: [torch==2.13.0]}}}}" for n in (118, 126, 128)
    )  # fmt: skip
    tree = with_pytorch("[g++]\nvariants:", f"[-g]\nvariants:{variants}")
    assert report(tree) == [f"{PYTORCH_PATH}:4:15: os_packages[0]: expected a Debian package name, found '-g'"]


def test_a_requirement_without_a_version_needs_a_pin() -> None:
    tree = changed(unlocked(), "buildspec/pins.yml", PINS.replace("transformers", "transformer"))
    lines = report(tree)
    assert lines == ["buildspec/defaults.yml:12:14: packages.training[0]: expected ==VERSION here or a version in "
                     "pins.yml, in a checkout, found 'transformers'; did you mean 'transformer'?"]  # fmt: skip


def test_two_variants_with_one_identifier_are_reported() -> None:
    tree = with_pytorch("variants:", "variants:\n  - packages: {framework: [torch==2.13.1]}")
    assert any("expected each image once, found pytorch-2.13-training-cpu-py311 twice" in line for line in report(tree))


def test_a_file_that_is_not_where_its_header_says_is_reported() -> None:
    tree = changed(unlocked(), "buildspec/pytorch/2.14-training.yml", PYTORCH)
    assert report(tree) == [
        "buildspec/pytorch/2.14-training.yml:2:10: version: expected the file's name '2.14-training' (VERSION-JOB), "
        "found '2.13-training'",
        "buildspec/pytorch/2.14-training.yml:6:5: variants: expected each image once, found "
        "pytorch-2.13-training-cpu-py311 twice",
    ]


def test_a_framework_without_a_dockerfile_is_reported() -> None:
    tree = changed(unlocked(), "buildspec/jax/2.13-training.yml", PYTORCH.replace("pytorch", "jax"))
    assert any("expected the file docker/jax/Dockerfile, found none" in line for line in report(tree))


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"- a\n", b"text", b"", b"\x00"])
@pytest.mark.parametrize("path", ["buildspec/defaults.yml", "buildspec/pins.yml", "buildspec/compat.yml", PYTORCH_PATH])
def test_a_file_of_another_kind_is_a_report_and_no_traceback(path: str, data: bytes) -> None:
    lines = report({**unlocked(), path: SourceFile(data)})
    assert any(line.startswith(f"{path}:1:1: ") for line in lines)


@pytest.mark.parametrize("path", ["buildspec/defaults.yml", "buildspec/pins.yml", "buildspec/compat.yml"])
def test_a_missing_file_is_named(path: str) -> None:
    tree = {name: file for name, file in unlocked().items() if name != path}
    assert any(line.startswith(f"{path}:1:1: ") and "found none" in line for line in report(tree))


def test_a_buildspec_without_images_is_an_error() -> None:
    tree = {name: file for name, file in unlocked().items() if name.count("/") < 2 or not name.startswith("buildspec")}
    assert "expected an image file" in report(tree)[0]


@pytest.mark.parametrize("text", ["pythn=3.11", "device=gpu", "base.os_packages=make", "labels=x"])
def test_a_wrong_set_is_a_usage_error_that_names_the_option(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--set") as caught:
        load_variants(unlocked(), (), [text])
    assert len(caught.value.message.splitlines()) == 1


def test_an_empty_defaults_file_is_one_problem_and_not_one_of_every_image() -> None:
    (line,) = report(changed(unlocked(), "buildspec/defaults.yml", "# nothing\n"))
    assert line.startswith("buildspec/defaults.yml:1:1: expected every setting (repository, python, ")
    assert line.endswith("found an empty file")


def test_a_setting_that_defaults_lacks_is_said_once() -> None:
    (line,) = report(changed(unlocked(), "buildspec/defaults.yml", DEFAULTS.replace("build_packages: [gcc]\n", "")))
    assert line == "buildspec/defaults.yml:1:1: build_packages: expected a value for build_packages, found none"


@pytest.mark.parametrize("path", ["buildspec/pytorch/2.14-training.yaml", "buildspec/pins.yaml"])
def test_a_file_that_would_not_be_read_is_an_error_that_says_its_name(path: str) -> None:
    (line,) = report(changed(unlocked(), path, PYTORCH))
    assert line == f"{path}:1:1: expected the name {path.rpartition('/')[2][:-5]}.yml, found another ending"


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("buildspec/defaults.yml", "device: cpu", "device: cpu\ndevice: cu128"),
        ("buildspec/pins.yml", "  numpy: 2.4.6", "  numpy: 2.4.6\n  numpy: 2.4.7"),
        ("buildspec/compat.yml", "rules:", "rules: []\nrules:"),
    ],
)
def test_a_key_that_stands_twice_is_an_error_with_both_places(path: str, old: str, new: str) -> None:
    text = unlocked()[path].data.decode()
    assert old in text
    (line,) = report(changed(unlocked(), path, text.replace(old, new, 1)))
    assert "expected each key once, found it also at" in line


@pytest.mark.parametrize("text", ["device=cu1", "device=cu0", "device=cu012", f"budget.gigabytes={'9' * 400}"])
def test_a_number_that_no_program_can_use_is_refused_where_it_is_written(text: str) -> None:
    with pytest.raises(UsageError, match=f"^--set {text}: {text.partition('=')[0]}: expected "):
        load_variants(unlocked(), (), [text])


def test_a_label_of_dlcs_own_cannot_be_set() -> None:
    with pytest.raises(
        UsageError, match=r"^--set labels\.org\.dlc\.id=x: labels\.org\.dlc\.id: expected a label outside"
    ):
        load_variants(unlocked(), (), ["labels.org.dlc.id=x"])


def test_an_unknown_label_setting_names_the_right_one() -> None:
    with pytest.raises(UsageError, match=r"unknown key 'label\.team'; did you mean 'labels'\?"):
        load_variants(unlocked(), (), ["label.team=vision"])


def test_another_platform_is_refused_by_name() -> None:
    with pytest.raises(UsageError) as caught:
        load_variants(unlocked(), (), ["platform=linux/s390x"])
    assert caught.value.message == (
        "--set platform=linux/s390x: platform: expected linux/amd64 or linux/arm64, found 'linux/s390x'"
    )


@pytest.mark.parametrize("address", ["https://me:hunter2@index.example/cpu", "https://me:hun/ter2@index.example/cpu",
                                     "me:hunter2@index.example/cpu"])  # fmt: skip
def test_an_address_with_a_password_is_refused_and_the_password_is_not_shown(address: str) -> None:
    index = f"{{special: {{address: '{address}', packages: [torch]}}}}"
    file = changed(unlocked(), "buildspec/defaults.yml", f"{DEFAULTS}indexes: {index}\n")
    with pytest.raises(SpecError, match="without credentials, found") as in_a_file:
        load_variants(file)
    with pytest.raises(UsageError, match="without credentials, found") as on_the_line:
        load_variants(unlocked(), (), [f"indexes={index}"])
    for said in (str(in_a_file.value), str(on_the_line.value)):
        assert "index.example/cpu" in said
        assert not {"me:", "hunter2", "hun", "ter2"} & set(re.split(r"[/@']", said))


def test_without_the_shared_versions_the_file_that_holds_them_is_named() -> None:
    tree = {path: file for path, file in read_tree(find_root(Path(__file__))).items() if path != "buildspec/pins.yml"}
    assert report(tree) == ["buildspec/pins.yml:1:1: expected a YAML file, found none"]


BROKEN_BASES = (
    "http://x/y", "https://registry.example/debian:12", "debian@sha256:abc", f"debian@sha256:{'g' * 64}",
    f"debian@sha256:{'a' * 65}", "Debian:12", "debian:1:2", "x//y", "-x", "registry.example/",
)  # fmt: skip


@pytest.mark.parametrize("base", BROKEN_BASES)
def test_a_base_image_that_docker_cannot_read_is_refused(base: str) -> None:
    with pytest.raises(UsageError, match=r"base\.image: expected an image reference such as debian:12"):
        load_variants(unlocked(), (), [f"base.image={base}"])


@pytest.mark.parametrize(
    "base",
    ["debian:12", f"debian@sha256:{'a' * 64}", f"localhost:5000/team/a__b-c:1.0_x@sha256:{'0' * 64}", "r.example/a"],
)
def test_a_base_image_that_docker_can_read_is_taken(base: str) -> None:
    assert load_variants(unlocked(), (), [f"base.image={base}"])
