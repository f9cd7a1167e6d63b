"""What needs no torch: settings, causes, steps, and merging the ranks' reports."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from dlc_runtime.compiler.base import settings
from dlc_runtime.compiler.base.errors import CompilerError
from dlc_runtime.compiler.base.seen import Seen
from dlc_runtime.compiler.pytorch.dumps import CONTENT
from dlc_runtime.compiler.report import files
from dlc_runtime.compiler.report.causes import cause_of
from dlc_runtime.compiler.report.merge import merged
from dlc_runtime.compiler.report.steps import AFTER, EAGER, WARM_UP, Steps
from dlc_runtime.compiler.report.summary import paragraph


def test_settings_are_read_from_the_environment() -> None:
    found = settings.read({"DLC_COMPILER": "Inductor", "DLC_COMPILER_STRICT": "1", "DLC_COMPILER_DYNAMIC": "0"})
    assert (found.backend, found.strict, found.dynamic) == ("inductor", True, False)
    assert settings.read({}).backend == "off"
    assert settings.read({}).dynamic is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DLC_COMPILER", "tvm"),
        ("DLC_COMPILER_STRICT", "perhaps"),
        ("DLC_COMPILER_EAGER_STEPS", "0"),
        ("DLC_COMPILER_EAGER_STEPS", "many"),
        ("DLC_COMPILER_REPORT_MINUTES", "nan"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_it(name: str, value: str) -> None:
    with pytest.raises(CompilerError, match=f"{name}={value}: expected"):
        settings.read({name: value})


@pytest.mark.parametrize(
    ("reason", "kind", "text"),
    [
        (
            "1/0: tensor 'x' size mismatch at index 1. expected 16, actual 24  # return x  # a.py:3 in forward",
            "shape",
            "tensor 'x' size mismatch at index 1. expected 16, actual 24",
        ),
        ("1/0: s.n == 0    # s.n+=1  # a.py:10 in forward (HINT: torch.compile considers ...", "number", "s.n == 0"),
        ("0/3: len(G['got']) == 3   # got.append(1)", "collection", "len(G['got']) == 3"),
        ("0/0: not G['got']   # got.append(1)", "collection", "not G['got']"),
        ("0/0: not module._modules['0']._forward_hooks   # x", "hook", "not module._modules['0']._forward_hooks"),
        ("0/0: GLOBAL_STATE changed: grad_mode ", "mode", "GLOBAL_STATE changed: grad_mode"),
        ("0/0: ___check_type_id(x, 1)", "other", "___check_type_id(x, 1)"),
    ],
)
def test_a_cause_of_dynamo_is_a_kind_and_a_short_text(reason: str, kind: str, text: str) -> None:
    found = cause_of(reason)
    assert (found.kind, found.text) == (kind, text)
    assert found.remedy


def steps(eager: float, warm_up: float, after: float, count: int = 10) -> Steps:
    """Five eager steps, one that compiles, and the rest."""
    result, now = Steps(), 0.0
    for phase, seconds, times in ((EAGER, eager, 5), (WARM_UP, warm_up, 1), (AFTER, after, count - 6)):
        for _ in range(times):
            now += seconds
            result.tick(phase, now)
    return result


def test_break_even_is_the_step_at_which_as_much_was_saved_as_compiling_took() -> None:
    found = steps(eager=2.0, warm_up=12.0, after=1.0)
    assert found.speed_up == 2.0
    assert found.break_even == 6 + 10  # ten steps that save one second each, after step 6
    total = 0.0
    for step in range(6, 17):
        total += 12.0 if step == 6 else 1.0
    assert total == 2.0 * 11  # as long as eleven eager steps


def test_what_is_slower_never_breaks_even() -> None:
    found = steps(eager=1.0, warm_up=12.0, after=1.5)
    assert found.break_even is None
    assert found.speed_up == pytest.approx(1 / 1.5)


def test_what_was_done_between_two_steps_is_part_of_neither() -> None:
    found = Steps()
    found.tick(EAGER, 1.0)
    found.resume(100.0)
    found.tick(EAGER, 101.0)
    assert found.phases[EAGER].median == 1.0


def test_a_gpu_is_waited_for_in_few_steps_once_it_has_settled() -> None:
    found = Steps()
    waited = 0
    for step in range(1000):
        waited += found.wants_device_idle(AFTER)
        found.tick(AFTER, float(step))
    assert 20 < waited <= 40


def record(rank: int, **more: Any) -> dict[str, Any]:
    again = {"function": "Net", "file": "a.py", "line": 3, "cause": "x == 1", "seconds": 1.0 + rank}
    empty: dict[str, Any] = {
        name: [] for name in ("modules", "eager", "graphs", "graph_breaks", "fallbacks", "gave_up", "warnings")
    }
    held = {"rank": rank, "pid": 100 + rank, "steps": steps(2.0, 12.0 + rank, 1.0, 40).as_json(), "cache_hits": 1}
    return {**empty, **held, "recompilations": [again], "compile_seconds": 5.0 + rank, **more}


def test_ranks_are_merged_into_one_entry_for_each_place_and_cause() -> None:
    found = merged([record(1), record(0)])
    assert [rank["rank"] for rank in found["ranks"]] == [0, 1]
    (again,) = found["recompilations"]
    assert (again["count"], again["ranks"], again["seconds"]) == (2, [0, 1], 2.0)
    assert found["compile_seconds"] == 6.0
    assert found["cache_hits"] == 2
    assert found["steps"]["break_even_step"] == 17  # the later one
    assert found["steps"]["first_compiled_step"] == 6


def test_a_report_that_is_broken_or_half_written_does_not_hide_the_others(tmp_path: Path) -> None:
    files.write_rank(str(tmp_path), record(0))
    (tmp_path / "rank-1-7.json").write_text('{"rank": 1, "ste')
    (tmp_path / "rank-2-7.json").write_text('{"rank": 2}')
    (tmp_path / "rank-3-7.json").write_text("[]")
    found = files.merge_folder(str(tmp_path))
    assert [rank["rank"] for rank in found["ranks"]] == [0]
    assert json.loads((tmp_path / "report.json").read_text()) == found


def test_merging_again_changes_nothing(tmp_path: Path) -> None:
    files.write_rank(str(tmp_path), record(0))
    first = copy.deepcopy(files.merge_folder(str(tmp_path)))
    assert files.merge_folder(str(tmp_path)) == first


def test_the_paragraph_says_speed_up_break_even_and_what_went_wrong() -> None:
    text = paragraph(merged([record(0, modules=[{"module": "Net"}])]), "/out/report.json")
    assert "A step takes 1.00 s, eager 2.00 s: 2.00 times as fast." in text
    assert "It paid from step 16 of 40 on." in text
    assert "1 recompilation, mostly Net (a.py:3): x == 1." in text
    assert text.endswith("Report: /out/report.json")


def test_a_run_that_is_too_short_is_not_judged() -> None:
    text = paragraph(merged([record(0, steps=steps(1.0, 12.0, 1.5, 12).as_json())]), "/out/report.json")
    assert "too short to say" in text
    assert "DLC_COMPILER=off" not in text


def test_a_model_for_which_compiling_does_not_pay_is_told_so() -> None:
    text = paragraph(merged([record(0, steps=steps(1.0, 12.0, 1.5, 40).as_json())]), "/out/report.json")
    assert "0.67 times as fast. Compiling does not pay for this model here: set DLC_COMPILER=off." in text


class Thing:
    def __eq__(self, other: object) -> bool:
        raise AssertionError("things are not compared")

    __hash__ = object.__hash__


def test_seen_things_are_known_by_identity_and_not_kept() -> None:
    seen, one, other = Seen(), Thing(), Thing()
    seen.add(one)
    assert one in seen
    assert other not in seen
    number = id(one)
    del one
    assert seen._references[number]() is None


DOCUMENT = Path(__file__).parents[4] / "docs/compiler.md"


def test_every_variable_that_the_runtime_reads_is_documented() -> None:
    sources = (DOCUMENT.parents[1] / "src/dlc_runtime/compiler").rglob("*.py")
    read = {name for path in sources for name in re.findall(r"\bDLC_COMPILE[A-Z_]*\b", path.read_text())}
    inner = {"DLC_COMPILE_CACHE_CHOSEN"}  # from a process to its children
    text = DOCUMENT.read_text()
    assert [name for name in sorted(read - inner) if f"`{name}" not in text] == []


def test_every_file_of_the_debug_mode_is_documented() -> None:
    lines = [line.split("  ")[0].strip() for line in CONTENT.splitlines()[2:]]
    text = DOCUMENT.read_text()
    assert len(lines) >= 8
    assert [line for line in lines if line.removesuffix("/") not in text] == []
