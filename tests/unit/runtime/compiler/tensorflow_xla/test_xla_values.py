"""What needs no TensorFlow: XLA's flags, the programs it leaves in its cache, and why a function was traced again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dlc_runtime.compiler.choosing.candidates import Budget
from dlc_runtime.compiler.choosing.choosing import Choosing
from dlc_runtime.compiler.report.html_page import render_page
from dlc_runtime.compiler.report.merge import merge_records
from dlc_runtime.compiler.report.record import SHAPE, RecompileCause
from dlc_runtime.compiler.report.step_times import StepTimes
from dlc_runtime.compiler.tensorflow_xla import functions, preparation
from dlc_runtime.compiler.tensorflow_xla.compiled_programs import (
    Program,
    Programs,
    XlaRecord,
    describe_difference,
    plain_name,
    short_reason,
)
from dlc_runtime.compiler.tensorflow_xla.functions import CONSTANT, TrainedFunction
from dlc_runtime.compiler.tensorflow_xla.turns import CLUSTERS, WHOLE

NEW, OLD = (2, 21, 0), (2, 15, 1)
CACHE = "--tf_xla_persistent_cache_directory"


def tf_flags(stated: str = "", version: tuple[int, ...] = NEW, on_cpu: bool = True, cache: str = "") -> str:
    return preparation.compose_flags({"TF_XLA_FLAGS": stated}, version, on_cpu, cache, "").variables["TF_XLA_FLAGS"]


def xla_flags(stated: str = "") -> str:
    return preparation.compose_flags({"XLA_FLAGS": stated}, NEW, True, "", "/out/compiler/xla/0").variables["XLA_FLAGS"]


def test_the_processor_is_clustered_for_where_there_is_no_gpu() -> None:
    assert tf_flags() == "--tf_xla_cpu_global_jit"
    assert tf_flags("--tf_xla_cpu_global_jit=false") == "--tf_xla_cpu_global_jit=false"
    assert tf_flags(on_cpu=False) == ""


def test_clustering_from_the_first_step_on_waits_for_the_steps_that_it_is_compared_with() -> None:
    assert tf_flags("--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit") == "--tf_xla_cpu_global_jit"
    assert tf_flags("--tf_xla_auto_jit=fusible", on_cpu=False) == "--tf_xla_auto_jit=fusible"


def test_an_old_tensorflow_gets_no_flag_that_would_end_it() -> None:
    assert CACHE in tf_flags(cache="/cache")
    assert CACHE not in tf_flags(cache="/cache", version=OLD)
    assert (preparation.BY_KEY in tf_flags(cache="/cache"), preparation.BY_KEY in tf_flags()) == (True, False)


def test_a_folder_that_the_job_states_is_kept() -> None:
    found = preparation.compose_flags({"TF_XLA_FLAGS": f"{CACHE}=/mine"}, NEW, False, "/cache", "")
    assert found.variables["TF_XLA_FLAGS"] == f"{CACHE}=/mine"
    assert found.cache == "/mine"


def test_debug_mode_bounds_what_xla_writes_and_gives_each_rank_a_folder() -> None:
    bounded = "--xla_dump_to=/out/compiler/xla/0 --xla_dump_max_hlo_modules=64"
    assert xla_flags() == bounded
    assert xla_flags("--xla_dump_to=/out/compiler") == bounded, "the launcher's, which has no bound"
    assert xla_flags("--xla_dump_to=/mine") == "--xla_dump_to=/mine --xla_dump_max_hlo_modules=64"


def test_without_a_reason_no_variable_is_set() -> None:
    assert preparation.compose_flags({}, NEW, False, "", "").variables == {}


@pytest.mark.parametrize("name", ["tensorflow", "tensorflow_cpu", "tensorflow_intel"])
def test_the_version_is_known_before_tensorflow_is_imported(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}-2.15.1.dist-info").mkdir()
    (tmp_path / "tensorflow_estimator-2.14.0.dist-info").mkdir()
    assert preparation.read_version(str(tmp_path / "tensorflow")) == (2, 15, 1)


def test_a_version_that_cannot_be_read_is_older_than_all(tmp_path: Path) -> None:
    assert preparation.read_version(str(tmp_path / "tensorflow")) < preparation.FIRST_WITH_CACHE
    assert preparation.read_version("/no/such/folder/tensorflow") < preparation.FIRST_WITH_CACHE


def test_a_full_disk_is_said_and_xla_gets_no_folder_that_it_would_fail_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tensorflow-2.21.0.dist-info").mkdir()
    environ = {"DLC_COMPILER": "xla", "DLC_COMPILE_CACHE": str(tmp_path / "cache")}
    monkeypatch.setattr(preparation, "prepared", preparation.Prepared())
    monkeypatch.setattr(preparation, "ROOM", 1 << 60)
    preparation.prepare(environ, str(tmp_path / "tensorflow"))
    assert CACHE not in environ["TF_XLA_FLAGS"]
    assert preparation.prepared.programs == ""
    assert "has less than 512 MiB of room" in capfd.readouterr().err
    monkeypatch.setattr(preparation, "ROOM", 1)
    preparation.prepare(environ, str(tmp_path / "tensorflow"))
    assert f"{CACHE}={tmp_path}/cache/" in environ["TF_XLA_FLAGS"]
    assert not preparation.prepared.private


# -- programs -------------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    result = b""
    while value > 127:
        result += bytes([value & 127 | 128])
        value >>= 7
    return result + bytes([value])


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def written(name: str, shapes: Iterable[tuple[int, Iterable[int]]], operations: int = 2) -> bytes:
    """As XLA writes a program: a key, the program before compiling, the compiled one."""
    kinds = (field(1, field(2, kind) + field(3, b"".join(map(varint, sizes)))) for kind, sizes in shapes)
    computation = field(1, b"main") + field(2, b"operation") * operations
    module = field(1, name.encode()) + field(3, computation) + field(4, b"".join(kinds))
    return field(1, b"key") + field(2, module) + field(3, b"\0" * 300)


def test_a_new_program_tells_its_name_its_shapes_and_its_size(tmp_path: Path) -> None:
    programs = Programs(str(tmp_path), private=True)
    assert programs.new() == []
    (tmp_path / "xla_compile_cache__1__2__XLA_CPU_JIT.pb").write_bytes(
        written("__inference_step_57[].3", [(11, (8, 300)), (5, ())], operations=7)
    )
    [found] = programs.new()
    assert found == ("step", ("float32[8,300]", "int64[]"), 7)
    assert programs.new() == []
    assert list(tmp_path.iterdir()) == []


def test_programs_of_a_cache_stay_there_and_those_of_earlier_jobs_are_not_new(tmp_path: Path) -> None:
    (tmp_path / "earlier.pb").write_bytes(written("cluster_0[x=true].2", []))
    programs = Programs(str(tmp_path), private=False)
    (tmp_path / "now.pb").write_bytes(written("cluster_1[x=true].2", []))
    assert [program.name for program in programs.new()] == ["cluster_1"]
    assert {path.name for path in tmp_path.iterdir()} == {"earlier.pb", "now.pb"}


@pytest.mark.parametrize("content", [b"", b"\xff" * 40, field(2, b"\x0f\x0f"), written("whole", [])[:-290]])
def test_a_program_that_cannot_be_read_is_counted_all_the_same(tmp_path: Path, content: bytes) -> None:
    programs = Programs(str(tmp_path), private=False)
    (tmp_path / "odd.pb").write_bytes(content)
    assert [program.shapes for program in programs.new()] == [()]


@pytest.mark.parametrize("length", [0, 1, 40, -1, -299])
def test_half_a_program_is_removed_from_the_cache_and_it_is_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], length: int
) -> None:
    """XLA's error about it reads as the end of the data, and Keras would end the training without a word."""
    whole = written("cluster_0", [(11, (8,))])
    (tmp_path / "whole.pb").write_bytes(whole)
    warnings: list[str] = []
    assert preparation.remove_damaged(str(tmp_path), warnings)
    assert warnings == []
    (tmp_path / "half.pb").write_bytes(whole[:length])
    assert preparation.remove_damaged(str(tmp_path), warnings)
    assert [path.name for path in tmp_path.iterdir()] == ["whole.pb"]
    assert warnings == [f"the cache {tmp_path} held 1 damaged programs: they are compiled anew"]
    assert warnings[0] in capfd.readouterr().err
    assert preparation.remove_damaged(str(tmp_path / "nowhere"), warnings)


def test_a_folder_that_xla_has_not_made_yet_holds_no_program(tmp_path: Path) -> None:
    programs = Programs(str(tmp_path / "later"), private=False)
    assert programs.new() == []
    (tmp_path / "later").mkdir()
    (tmp_path / "later/one.pb").write_bytes(written("cluster_0", []))
    assert len(programs.new()) == 1
    assert Programs("", private=False).new() == []


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("__inference_one_step_on_data_123[].3", "one_step_on_data"),
        ("a_inference_one_step_on_data_123__.789", "one_step_on_data"),
        ("cluster_12[_XlaCompiledKernel=true].2", "cluster_12"),
        ("cluster_0__XlaCompiledKernel_true_.2", "cluster_0"),
        ("", ""),
    ],
)
def test_a_program_has_the_name_of_its_function(name: str, plain: str) -> None:
    assert plain_name(name) == plain


def test_the_argument_whose_shape_changed_is_named() -> None:
    assert describe_difference(("float32[8,4]", "float32[4]"), ("float32[6,4]", "float32[4]")) == (
        "argument 0 is float32[6,4], it was float32[8,4]"
    )
    assert describe_difference(("float32[8]",), ("float32[8]",)) == ""
    assert describe_difference((), ("float32[8]",)) == "1 arguments, there were 0"


def test_a_program_is_another_by_its_shape_before_a_constant_that_follows_from_it() -> None:
    trained = TrainedFunction("step", "train.py", 3)
    assert trained.compiled_again([Program("one", ("float32[4]",), 1), Program("two", ("float32[4]",), 1)]) == ""
    again = trained.compiled_again([Program("one", ("float32[4]",), 1), Program("two", ("float32[5]",), 1)])
    assert again == "two: argument 0 is float32[5], it was float32[4]"
    assert trained.compiled_again([Program("one", ("float32[4]",), 1)]) == f"one: {CONSTANT}"


def test_a_function_that_is_made_anew_is_compared_with_nothing() -> None:
    """Keras makes the train function again after each `compile`: its programs are no recompilations."""
    trained = TrainedFunction("step", "train.py", 3)
    trained.compiled_again([Program("one", ("float32[4]",), 1)])
    trained.forget_programs()
    assert trained.compiled_again([Program("one", ("float32[4]",), 1)]) == ""


# -- causes ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DType:
    name: str


@dataclass(frozen=True)
class Tensor:
    shape: tuple[int, ...]
    dtype: DType = DType("float32")


@dataclass(frozen=True)
class Iterator:
    element_spec: str


class Thing:
    pass


def step(batch: Any, rate: Any = 0.1) -> None:
    pass


def cause(old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[str, str]:
    found = functions.cause_of_tracing(functions.read_signature(step, old, {}), functions.read_signature(step, new, {}))
    assert bool(found.remedy) == (found.kind != "other")
    return found.kind, found.text


@pytest.mark.parametrize(
    ("old", "new", "kind", "text"),
    [
        (
            (Tensor((4, 8)),),
            (Tensor((5, 8)),),
            "shape",
            "'batch' is a float32 tensor of shape (5, 8), it was a float32 tensor of shape (4, 8)",
        ),
        (
            ((Tensor((4,)), Tensor((2,))),),
            ((Tensor((4,)), Tensor((3,))),),
            "shape",
            "'batch[1]' is a float32 tensor of shape (3,), it was a float32 tensor of shape (2,)",
        ),
        (
            ({"x": Tensor((4,), DType("int32"))},),
            ({"x": Tensor((4,))},),
            "type",
            "'batch['x']' is a float32 tensor of shape (4,), it was a int32 tensor of shape (4,)",
        ),
        (
            (Tensor((4,)), 1),
            (Tensor((4,)), 2),
            "number",
            "'rate' is the Python value 2, it was the Python value 1",
        ),
        (
            (Tensor((4,)), Tensor(())),
            (Tensor((4,)), 2),
            "number",
            "'rate' is the Python value 2, it was a float32 tensor of shape ()",
        ),
        ((Iterator("a"),), (Iterator("b"),), "shape", "'batch' is an iterator over b, it was an iterator over a"),
        (([Tensor(())],), ([Tensor(())] * 2,), "structure", "the arguments are batch[0], batch[1], they were batch[0]"),
        ((Tensor((4,)),), (Tensor((4,)),), "other", "it was traced again for the same arguments"),
    ],
)  # fmt: skip
def test_the_argument_that_made_it_trace_again_is_named(
    old: tuple[Any, ...], new: tuple[Any, ...], kind: str, text: str
) -> None:
    assert cause(old, new) == (kind, text)


def test_another_object_each_time_is_named() -> None:
    assert cause((Thing(),), (Thing(),)) == ("object", "'batch' is another Thing than before")


def test_what_xla_lacks_is_named() -> None:
    message = (
        "Detected unsupported operations when trying to compile graph __inference_step_7 on XLA_CPU_JIT: "
        "AsString (No registered 'AsString' OpKernel for XLA_CPU_JIT devices){{node AsString}}\n"
        "StringLength (No registered 'StringLength' OpKernel){{node StringLength}}"
    )
    assert short_reason(message) == "XLA lacks AsString, StringLength"
    assert short_reason("ValueError in user code:\n\n  the shape must be known") == "the shape must be known"
    deep = "Graph execution error:\n\nDetected at node x defined at:\n<stack traces unavailable>\nno target\n\t [[x]]"
    assert short_reason(deep) == "no target"
    assert short_reason("") == ""


def test_a_refused_step_is_one_line_with_the_user_s_line() -> None:
    """TensorFlow's message holds the stack in which the operation was made."""
    message = (
        "Detected unsupported operations when trying to compile graph __inference_step_7 on XLA_CPU_JIT: "
        "AsString (No registered 'AsString' OpKernel for XLA_CPU_JIT devices){{node AsString}}\n"
        'The op is created at:\nFile "train.py", line 40, in <module>\nFile "model.py", line 12, in call\n'
        'File "/usr/lib/python3/site-packages/keras/src/ops.py", line 9, in as_string'
    )
    record = XlaRecord()
    where = {"function": "step", "file": "train.py", "line": 3, "step": 6}
    warning = record.add_failure(where, ValueError(message), 0)
    assert "\n" not in warning
    assert "step (train.py:3)" in warning
    assert "XLA lacks AsString (model.py:12)" in warning
    assert (record.fallbacks[0]["failed_file"], record.fallbacks[0]["failed_line"]) == ("model.py", 12)


def test_a_function_that_is_given_up_is_named_with_its_line_and_the_remedy() -> None:
    record = XlaRecord()
    where = {"function": "step", "file": "train.py", "line": 3, "step": 20}
    text = record.add_given_up(9, where, RecompileCause("shape", "'x' is another shape", SHAPE))
    assert "step (train.py:3) again 9 times: it runs without XLA from step 21 on" in text
    assert "bucket" in text
    assert record.gave_up[0]["kind"] == "shape"


def test_the_report_has_the_ways_of_each_function() -> None:
    """A GAN has two; what is said of the choice is that of the first."""
    record = XlaRecord()
    assert record.as_json()["choosing"] == {}
    for name, ways in [("generator", (WHOLE, CLUSTERS)), ("critic", (CLUSTERS,))]:
        record.choices[name] = Choosing(ways, Budget(), 5)
    record.choosing = record.choices["generator"]
    found = record.as_json()["choosing"]
    assert found["words"].startswith("no way was chosen yet")
    ways = [(each["function"], each["way"]) for each in found["candidates"]]
    assert ways == [
        ("generator", "eager"), ("generator", WHOLE), ("generator", CLUSTERS), ("critic", "eager"), ("critic", CLUSTERS)
    ]  # fmt: skip
    rank = {"rank": 0, "pid": 1, "steps": StepTimes().as_json(), **record.as_json()}
    page = render_page(merge_records([rank]))
    assert page.count("<td>critic</td>") == 2
