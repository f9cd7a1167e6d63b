"""What needs no torch: settings, causes, steps, and merging the ranks' reports."""

from __future__ import annotations

import copy
import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from dlc_runtime.compiler import settings
from dlc_runtime.compiler.choosing.candidates import EAGER as EAGER_WAY
from dlc_runtime.compiler.choosing.candidates import Budget, Result
from dlc_runtime.compiler.choosing.choosing import Choosing
from dlc_runtime.compiler.hooks import IdentitySet
from dlc_runtime.compiler.pytorch.debug_dumps import CONTENT
from dlc_runtime.compiler.report import merge
from dlc_runtime.compiler.report.html_page import render_page
from dlc_runtime.compiler.report.merge import merge_records
from dlc_runtime.compiler.report.record import Record, cause_of, lines_of
from dlc_runtime.compiler.report.step_times import AFTER, EAGER, WARM_UP, StepTimes
from dlc_runtime.compiler.report.summary import summary
from dlc_runtime.compiler.report.writer import Writer


@pytest.mark.parametrize(
    ("reason", "kind", "text"),
    [
        (
            "1/0: tensor 'x' size mismatch at index 1. expected 16, actual 24  # return x  # a.py:3 in forward",
            "shape",
            "x has size 24 in dimension 1, and was compiled for 16",
        ),
        ("0/0: tensor 'x' rank mismatch. expected 2, actual 3", "shape", "x has 3 dimensions, and was compiled for 2"),
        (
            "0/0: tensor 'L['x']' stride mismatch at index 0. expected 8, actual 1",
            "layout",
            "x lies in memory with stride 1 in dimension 0, and was compiled for 8",
        ),
        (
            "0/0: tensor 'x' dtype mismatch. expected Float, actual Half",
            "dtype",
            "x is Half, and was compiled for Float",
        ),
        (
            "0/0: tensor 'x' requires_grad mismatch. expected requires_grad=0",
            "gradient",
            "x requires a gradient in some steps, and in others not",
        ),
        (
            "0/1: x.size()[0] == 4  # y = x + 1  # a.py:3 in forward",
            "shape",
            "x does not have size 4 in dimension 0, for which it was compiled",
        ),
        ("0/1: Eq(s0, 4)  # a.py:3 in forward", "shape", "sizes are not as when it was compiled: Eq(s0, 4)"),
        (
            "1/0: s.n == 0    # s.n+=1  # a.py:10 in forward (HINT: torch.compile considers ...",
            "number",
            "s.n is not 0, as when it was compiled",
        ),
        ("1/0: s.kind == 'train'  # a.py:10 in forward", "value", "s.kind is not 'train', as when it was compiled"),
        (
            "0/3: len(G['got']) == 3   # got.append(1)",
            "collection",
            "the number of elements in got is not 3, as when it was compiled",
        ),
        (
            "0/3: len(G['__import_my_dot_module'].late) == 1   # late.append(1)",
            "collection",
            "the number of elements in late is not 1, as when it was compiled",
        ),
        ("0/0: not G['got']   # got.append(1)", "collection", "got was empty when it was compiled, and is not"),
        (
            "0/0: not module._modules['body']._modules['0']._forward_pre_hooks   # x",
            "hook",
            "the hooks of module.body.0 are not those it was compiled with",
        ),
        (
            "0/0: module.body.training  # a.py:3 in forward",
            "mode",
            "module.body was switched between train() and eval()",
        ),
        ("0/0: GLOBAL_STATE changed: grad_mode ", "mode", "torch runs in another mode: grad_mode"),
        ("0/0: ___check_type_id(x, 1), type=<class 'int'>", "type", "x is of another class than when it was compiled"),
        ("0/0: ___check_obj_id(x.y, 1)", "object", "x.y is another object than when it was compiled"),
        ("0/0: ___dict_contains('a', x)", "keys", "x has other keys than it was compiled with"),
        (
            "2/1: Cache line invalidated because ___stack0 got deallocated",
            "object",
            "an intermediate value of that time is gone",
        ),
        ("0/0: something(else)", "other", "this does not hold any more: something(else)"),
    ],
)
def test_a_cause_of_dynamo_is_a_kind_and_a_sentence(reason: str, kind: str, text: str) -> None:
    found = cause_of(reason)
    assert (found.kind, found.text) == (kind, text)
    assert bool(found.remedy) == (kind not in ("object", "other"))


@pytest.mark.parametrize(
    ("reason", "lines"),
    [
        ("0/0: s.n == 0  # s.n += 1  # code/a.py:10 in forward (HINT: torch.compile ...)", ["code/a.py:10"]),
        ("0/0: s.n == 0  # a.py:10 in forward", ["a.py:10"]),
        (
            '0/0: s.n == 0  # code/a.py:10 in g\nUser stack trace:\n  File "/code/a.py", line 7, in forward\n'
            '    g()\n  File "/code/a.py", line 10, in g\n    s.n += 1',
            ["/code/a.py:7", "/code/a.py:10"],
        ),
        ("0/0: s.n == 0", []),
    ],
)
def test_the_lines_of_a_cause_are_those_that_dynamo_names(reason: str, lines: list[str]) -> None:
    assert lines_of(reason) == lines


def steps(eager: float, warm_up: float, after: float, count: int = 10) -> StepTimes:
    """Five eager steps, one that compiles, and the rest."""
    result, now = StepTimes(), 0.0
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
    found = StepTimes()
    found.tick(EAGER, 1.0)
    found.resume(100.0)
    found.tick(EAGER, 101.0)
    assert found.phases[EAGER].median == 1.0


def test_a_gpu_is_waited_for_in_few_steps_once_it_has_settled() -> None:
    found = StepTimes()
    waited = 0
    for step in range(1000):
        waited += found.wants_device_idle(AFTER)
        found.tick(AFTER, float(step))
    assert 20 < waited <= 40


def chosen_by_measuring(ways: dict[str, float]) -> dict[str, Any]:
    """Seconds of a step of each way; eager ones take two. The first step of each compiles."""
    choosing, step, compiled = Choosing(list(ways), Budget(), 3), 0, set()
    while not choosing.decided_at:
        block = choosing.block
        each, count = {**ways, EAGER_WAY: 2.0}[block.way], block.skipped + block.steps
        compiling = 0.0 if block.way in (EAGER_WAY, *compiled) else 1.0
        compiled.add(block.way)
        step += count
        choosing.end_block(Result(each, each * count + compiling, compiling, step=step))
    return choosing.as_json()


def record(rank: int, **more: Any) -> dict[str, Any]:
    again = {"function": "Net", "file": "a.py", "line": 3, "cause": "x == 1", "seconds": 1.0 + rank}
    names = ("eager", "graph_breaks", "fallbacks", "gave_up", "warnings")
    empty: dict[str, Any] = {name: [] for name in names}
    empty |= {"modules": [{"module": "Net"}], "graphs": [{"function": "Net", "file": "a.py", "line": 3, "id": "0/0"}]}
    held = {"rank": rank, "pid": 100 + rank, "steps": steps(2.0, 12.0 + rank, 1.0, 40).as_json(), "cache_hits": 1}
    return {**empty, **held, "recompilations": [again], "compile_seconds": 5.0 + rank, **more}


def test_ranks_are_merged_into_one_entry_for_each_place_and_cause() -> None:
    found = merge_records([record(1), record(0)])
    assert [rank["rank"] for rank in found["ranks"]] == [0, 1]
    (again,) = found["recompilations"]
    assert (again["count"], again["ranks"], again["seconds"]) == (2, [0, 1], 2.0)
    assert found["compile_seconds"] == 6.0
    assert found["cache_hits"] == 2
    assert found["steps"]["break_even_step"] == 17  # the later one
    assert found["steps"]["first_compiled_step"] == 6


def test_a_report_that_is_broken_or_half_written_does_not_hide_the_others(tmp_path: Path) -> None:
    merge.write_rank(str(tmp_path), record(0))
    (tmp_path / "rank-1-7.json").write_text('{"rank": 1, "ste')
    (tmp_path / "rank-2-7.json").write_text('{"rank": 2}')
    (tmp_path / "rank-3-7.json").write_text("[]")
    found = merge.merge_folder(str(tmp_path))
    assert [rank["rank"] for rank in found["ranks"]] == [0]
    assert json.loads((tmp_path / "report.json").read_text()) == found


def test_threads_that_write_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    """One writes now and then, one while something is compiled, and the training itself."""
    facts = {"framework": "torch", "device": "cpu"}
    writer = Writer(settings.Settings(report=str(tmp_path)), Record(), StepTimes(), lambda: dict(facts))
    writing = threading.Event()

    def check(*_arguments: object) -> None:
        together.append(writing.is_set())
        writing.set()
        time.sleep(0.05)
        writing.clear()

    together: list[bool] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "write_rank", check)
        threads = [threading.Thread(target=writer.write) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert together == [False] * 3


def test_merging_again_changes_nothing(tmp_path: Path) -> None:
    merge.write_rank(str(tmp_path), record(0))
    first = copy.deepcopy(merge.merge_folder(str(tmp_path)))
    assert merge.merge_folder(str(tmp_path)) == first


def test_the_paragraph_says_speed_up_break_even_and_what_went_wrong() -> None:
    choosing = chosen_by_measuring({"inductor": 1.0})
    text = summary(merge_records([record(0, choosing=choosing)]), "/out/report.json")
    assert "By measuring in turns: inductor from step 25 on: 2.00 to 2.00 times as fast as eager." in text
    assert "and paid from step 25 of 40 on." in text
    assert "1 recompilation: Net (a.py:3): x == 1." in text
    assert text.endswith("Report: /out/report.json")


def test_a_job_that_stayed_eager_has_no_speed_up_and_no_step_from_which_it_pays() -> None:
    choosing = chosen_by_measuring({"inductor": 2.0})
    found = merge_records([record(0, choosing=choosing)])
    assert found["choosing"]["way"] == "eager"
    assert (found["steps"]["speed_up"], found["steps"]["break_even_step"]) == (None, None)


def test_the_paragraph_names_the_kind_that_most_recompilations_have() -> None:
    """Not the entry that came most often: each shape is an entry of its own."""
    where = {"function": "Net", "file": "a.py", "line": 3, "seconds": 1.0}
    shapes = [{**where, "kind": "shape", "cause": f"x has size {size}"} for size in range(9)]
    numbers = [{**where, "kind": "number", "cause": "self.calls is not 0"}] * 2
    text = summary(merge_records([record(0, recompilations=numbers + shapes)]), "/out/report.json")
    assert "11 recompilations, 9 of them of the kind 'shape', such as Net (a.py:3): x has size 0." in text


def test_no_speed_is_said_of_a_job_without_a_graph() -> None:
    text = summary(merge_records([record(0, graphs=[])]), "/out/report.json")
    assert text.startswith("Nothing was compiled in 40 steps: no graph was made of Net.\n")
    assert "as fast" not in text


def test_a_job_that_was_stopped_while_it_compiled_says_so() -> None:
    ended = record(0, compiling=[{"function": "Net", "seconds": 71.3}], state="ended")
    text = summary(merge_records([ended]), "/out/report.json")
    assert "It was stopped while Net was compiled, after 71 s." in text


def test_a_rank_that_still_compiles_when_another_one_has_ended_is_not_said_to_be_stopped() -> None:
    still = record(1, compiling=[{"function": "Net", "seconds": 1.4}], state="running")
    text = summary(merge_records([record(0, state="ended"), still]), "/out/report.json")
    assert "When rank 1 last wrote, Net was being compiled, for 1 s so far." in text
    assert "stopped" not in text


def test_a_cause_without_a_remedy_has_none_in_its_warning() -> None:
    where = {"function": "Net", "file": "a.py", "line": 3, "step": 6}
    found = Record()
    for _ in range(3):
        warning = found.add_recompilation(where, 1.0, cause_of("0/0: ___check_obj_id(x, 1)"))
    assert warning.endswith(": x is another object than when it was compiled")


def test_a_run_that_is_too_short_is_not_judged() -> None:
    text = summary(merge_records([record(0, steps=steps(1.0, 12.0, 1.5, 12).as_json())]), "/out/report.json")
    assert "too short to say" in text
    assert "DLC_COMPILER=off" not in text


def test_without_turns_no_speed_up_is_claimed_and_nothing_is_advised() -> None:
    text = summary(merge_records([record(0, steps=steps(1.0, 12.0, 1.5, 40).as_json())]), "/out/report.json")
    assert "A step takes 1.50 s, the 5 eager ones before took 1.00 s; they were not measured in turns" in text
    assert "times as fast" not in text
    assert "DLC_COMPILER=off" not in text


def test_a_job_that_ended_before_a_way_was_chosen_says_so() -> None:
    choosing = Choosing(["inductor"], Budget(), 3)
    choosing.end_block(Result(1.0, 3.0, step=5))
    text = summary(merge_records([record(0, choosing=choosing.as_json(), state="ended")]), "/out/report.json")
    assert "By measuring in turns: no way was chosen yet: inductor was not measured yet." in text
    assert "paid" not in text


def test_the_page_shows_each_way_with_its_verdict_and_outcome() -> None:
    text = render_page(merge_records([record(0, choosing=chosen_by_measuring({"inductor": 1.0, "regional": 3.0}))]))
    assert "<td>inductor</td><td>taken</td>" in text
    assert "<td>2.00 to 2.00 times as fast</td>" in text
    assert "<b>1 s</b><span>a step, inductor, in the same pairs</span>" in text
    assert "left: slower" in text
    assert "2.00 to 2.00\u00d7" in text


class Thing:
    def __eq__(self, other: object) -> bool:
        raise AssertionError("things are not compared")

    __hash__ = object.__hash__


def test_seen_things_are_known_by_identity_and_not_kept() -> None:
    seen, one, other = IdentitySet(), Thing(), Thing()
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
