"""The Python packages of each image are exactly those of its locks, fit together and can be imported."""

from __future__ import annotations

import json

import pytest

from dlc.buildspec.variant import normal_name
from harness.container import Container
from harness.images import Image

pytestmark = pytest.mark.container

LIST_DISTRIBUTIONS = """
import importlib.metadata, json
print(json.dumps(sorted((d.metadata["Name"], d.version) for d in importlib.metadata.distributions())))
"""
REDUCE_ALONE = """
import tempfile, torch, torch.distributed as distributed
store = "file://" + tempfile.mkdtemp() + "/store"
distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
value = torch.ones(1)
distributed.all_reduce(value)
print(float(value))
distributed.destroy_process_group()
"""
# What `pip check` may say, and why it is no defect.
KNOWN_CONFLICTS: dict[str, str] = {}


def test_packages_and_versions_are_exactly_the_locked_ones(container: Container, image: Image) -> None:
    installed = [(normal_name(name), version) for name, version in json.loads(container.python(LIST_DISTRIBUTIONS))]
    assert len(installed) == len(dict(installed)), "a package is there twice"
    assert dict(installed) == image.python_packages


def test_python_is_the_one_of_the_buildspec_in_the_virtual_environment(container: Container, image: Image) -> None:
    code = "import sys; print(sys.executable, sys.prefix, '%d.%d' % sys.version_info[:2])"
    assert container.python(code).split() == ["/opt/venv/bin/python", "/opt/venv", image.variant.settings.python]


def test_packages_fit_together(container: Container) -> None:
    _, output, errors = container.try_to("python", "-m", "pip", "check", seconds=120)
    conflicts = {line for line in output.splitlines() if line and line != "No broken requirements found."}
    assert conflicts <= set(KNOWN_CONFLICTS), errors
    assert "No module named" not in errors


def test_the_libraries_of_every_training_image_can_be_imported(container: Container) -> None:
    container.python("import numpy, sklearn, transformers, sagemaker_training", seconds=180)


@pytest.mark.when(framework="pytorch")
def test_torch_can_be_imported_and_computes(container: Container) -> None:
    assert container.python("import torch, transformers; print(int(torch.arange(10).sum()))", seconds=180) == "45\n"


@pytest.mark.when(framework="pytorch")
def test_torch_reduces_over_processes_with_gloo(container: Container) -> None:
    assert container.python(REDUCE_ALONE, seconds=180).splitlines()[-1] == "1.0"  # newer gloo says who is connected


@pytest.mark.when(framework="tensorflow")
def test_tensorflow_can_be_imported_and_computes(container: Container) -> None:
    assert container.python("import tensorflow as tf; print(int(tf.reduce_sum(tf.range(10))))", seconds=180) == "45\n"


def test_bytecode_is_there_so_that_imports_do_not_compile(container: Container) -> None:
    code = """
import importlib.util, numpy, os, sagemaker_training
print(all(os.path.exists(importlib.util.cache_from_source(m.__file__)) for m in (numpy, sagemaker_training, os)))
"""
    assert container.python(code) == "True\n"


def test_files_of_packages_belong_to_root_and_only_root_may_change_them(container: Container) -> None:
    assert container.find("!", "-user", "root", below=("/opt",)) == []
    assert container.find("-perm", "/0022", "!", "-type", "l", below=("/opt",)) == []


# Modules of packages that are asked for, and why they are not imported by themselves.
NOT_BY_ITSELF = {
    "_XLAC": "torch_xla's own part, which it imports after torch; test_gpu_contracts.py computes with it",
    "torchax": "part of torch_xla's wheel, for those who have JAX",
}
IMPORT_ALL = """
import importlib, importlib.machinery, importlib.metadata, json, re, sys
wanted, failed = set(json.loads(sys.argv[1])), {}
modules = importlib.metadata.packages_distributions()
for module, owners in sorted(modules.items()):
    files = importlib.machinery.PathFinder.find_spec(module)  # a top_level.txt may name what the wheel does not hold
    if files and module.isidentifier() and wanted & {re.sub("[-_.]+", "-", owner).lower() for owner in owners}:
        try:
            importlib.import_module(module)
        except Exception as error:
            failed[module] = f"{type(error).__name__}: {error}"
print(json.dumps(failed))
"""


@pytest.mark.when(python=">=3.10")  # packages_distributions begins there
def test_everything_that_the_buildspec_asks_for_can_be_imported(container: Container, image: Image) -> None:
    asked = (*image.variant.framework_requirements, *image.variant.training_requirements)
    names = json.dumps([normal_name(each) for each in asked if not each.startswith("nvidia-")])
    _, output, errors = container.try_to("python", "-c", IMPORT_ALL, names, seconds=300)
    failed = json.loads(output.splitlines()[-1])
    assert {module: why for module, why in failed.items() if module not in NOT_BY_ITSELF} == {}, errors


ADDON = """
import sys, zipfile
name, requirement = "dlc_addon-1", sys.argv[1]
with zipfile.ZipFile(f"/tmp/{name}-py3-none-any.whl", "w") as wheel:
    info = f"{name}.dist-info"
    head = "Metadata-Version: 2.1\\nName: dlc-addon\\nVersion: 1\\n"
    wheel.writestr(f"{info}/METADATA", f"{head}Requires-Dist: {requirement}\\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(f"{info}/RECORD", "")
"""


@pytest.mark.when(framework="tensorflow")
def test_what_asks_for_tensorflow_brings_no_second_one(container: Container, image: Image) -> None:
    """As tensorflow-text does. There is no index, so that pip fails if it looks for one."""
    container.python(ADDON, f"tensorflow=={image.variant.header.version}.*")
    command = ("python", "-m", "pip", "install", "--dry-run", "--no-index", "/tmp/dlc_addon-1-py3-none-any.whl")
    code, output, errors = container.try_to(*command, seconds=120)
    assert code == 0, errors
    assert "Would install dlc-addon-1\n" in output


@pytest.mark.when(framework="tensorflow", version=">=2.16")
@pytest.mark.parametrize(("value", "package"), [("1", "tf_keras"), ("0", "keras")])
def test_tf_keras_is_the_keras_that_the_launcher_has_chosen(container: Container, value: str, package: str) -> None:
    chosen = f"import os; os.environ['TF_USE_LEGACY_KERAS'] = '{value}'; import tensorflow as tf"
    code = f"{chosen}; print(tf.keras.Model.__module__.partition('.')[0])"
    assert container.python(code, seconds=180) == f"{package}\n"


@pytest.mark.when(framework="tensorflow", version=">=2.12")
def test_tensorflow_datasets_finds_its_own_data_sets(container: Container) -> None:
    code = "import tensorflow_datasets as tfds; print(tfds.builder('mnist').info.features['label'].num_classes)"
    assert container.python(code, seconds=180) == "10\n"


SERVE = """
import threading, urllib.request
from flask import Flask
from werkzeug.serving import make_server
app = Flask("serve")
app.add_url_rule("/ping", view_func=lambda: "pong")
server = make_server("127.0.0.1", 0, app)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen(f"http://127.0.0.1:{server.port}/ping", timeout=30).read().decode())
server.shutdown()
"""


@pytest.mark.when(framework="tensorflow")
def test_a_container_that_trains_can_also_serve_with_flask(container: Container) -> None:
    assert container.python(SERVE, seconds=120) == "pong\n"


@pytest.mark.parametrize("program", ["git", "curl", "unzip", "g++"])
def test_programs_that_training_scripts_and_sources_need_are_there(container: Container, program: str) -> None:
    assert container.try_to(program, "--version" if program != "unzip" else "-v")[0] == 0
