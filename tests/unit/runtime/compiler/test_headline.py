"""A report begins with a verdict by the job's own seconds and what to change, and claims nothing that was not seen."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dlc_runtime.compiler.choosing.candidates import EAGER, Budget, Result
from dlc_runtime.compiler.choosing.choosing import Choosing
from dlc_runtime.compiler.pytorch.newcomers import STEPS_TO_STAY, Newcomers
from dlc_runtime.compiler.report.html_page import render_page
from dlc_runtime.compiler.report.merge import merge_records
from dlc_runtime.compiler.report.step_times import AFTER, WARM_UP, StepTimes
from dlc_runtime.compiler.report.step_times import EAGER as EAGER_PHASE
from dlc_runtime.compiler.report.summary import summary

CACHE = {"asked": "/opt/ml/checkpoints/c", "folder": "/opt/ml/checkpoints/c/key"}


def choose(speeds: dict[str, float], blocks: int = 500, compiling: float = 1.0, **more: Any) -> dict[str, Any]:
    """Run a choice for so many blocks, or until it is made; an eager step takes one second."""
    choosing, step, compiled, now = Choosing(list(speeds), Budget(600, 0), 3, **more), 0, set(), 0.0
    for _ in range(blocks):
        if choosing.decided_at:
            break
        block = choosing.block
        each, count = {**speeds, EAGER: 1.0}[block.way], block.skipped + block.steps
        took = 0.0 if block.way in (EAGER, *compiled) else compiling
        compiled.add(block.way)
        step += count
        now += each * count + took
        choosing.end_block(Result(each, each * count + took, took, step=step, elapsed=now))
    return choosing.as_json()


def merged(choosing: dict[str, Any], steps: int = 98, **more: Any) -> dict[str, Any]:
    """Merge the report of one rank that has ended. The medians of its phases are not those of the pairs."""
    times, now = StepTimes(), 0.0
    for number in range(steps):
        phase, took = (EAGER_PHASE, 0.883) if number < 5 else (WARM_UP, 60.0) if number == 5 else (AFTER, 0.5)
        now += took
        times.tick(phase, now)
    where = {"file": "train.py", "line": 12}
    record = {
        "rank": 0, "pid": 1, "state": "ended", "backend": "inductor", "framework": "torch", "steps": times.as_json(),
        "compile_seconds": 236.0, "modules": [{"module": "Net", "parameters": 9, **where}],
        "graphs": [{"function": "Net", "id": "0/0", "step": 6, "seconds": 236.0, "operations": 3, **where}],
        "choosing": choosing, **more,
    }  # fmt: skip
    return merge_records([record])


def first_lines(report: dict[str, Any]) -> list[str]:
    return summary(report, "report.json").splitlines()[:2]


def test_a_job_without_a_speed_up_reads_that_compiling_was_not_worth_it_and_what_to_set_next_time() -> None:
    assert first_lines(merged(choose({"inductor": 0.99}))) == [
        "Not worth it here: compiling took 236 s, no speed-up could be shown in 98 steps.",
        "To change: next time DLC_COMPILER=off, or DLC_COMPILE_CACHE=FOLDER, compiling then takes about 24 s.",
    ]


def test_a_slower_way_is_named_and_a_job_that_has_a_cache_is_not_told_to_have_one() -> None:
    verdict, advice = first_lines(merged(choose({"inductor": 1.5}), cache=CACHE))
    assert verdict == "Not worth it here: compiling took 236 s, inductor was slower in 98 steps."
    assert advice == "To change: next time DLC_COMPILER=off."


def test_a_faster_way_has_its_interval_and_the_step_from_which_it_paid_by_the_figures_of_pairs() -> None:
    choosing = choose({"inductor": 0.5}, compiling=30.0)
    report = merged(choosing)
    start, spent = choosing["from_step"], choosing["spent_seconds"]
    assert report["steps"]["break_even_step"] == start - 1 + spent / 0.5 == 83
    verdict, advice = first_lines(report)
    assert verdict == (
        f"Worth it: inductor from step {start} on, 2.00 to 2.00 times as fast as eager; compiling took 236 s, "
        "and paid from step 83 of 98 on."
    )
    assert advice.startswith("To change: next time DLC_COMPILE_CACHE=FOLDER")


def test_a_job_that_was_too_short_for_a_faster_way_reads_when_it_would_have_paid() -> None:
    verdict, _ = first_lines(merged(choose({"inductor": 0.5}, compiling=300.0)))
    assert verdict.startswith("Faster, but this job was too short: inductor from step ")
    assert "would have paid from step 623 on, the job had 98." in verdict


def test_the_step_from_which_a_way_pays_counts_from_eager_also_if_another_way_was_beaten_last() -> None:
    report = merged(choose({"inductor": 0.8, "cuda-graphs": 0.4}, compiling=6.0))
    chosen = report["choosing"]
    assert (chosen["way"], chosen["from_step"], chosen["spent_seconds"]) == ("cuda-graphs", 46, 11.4)
    assert report["steps"]["break_even_step"] == 45 + 19, "a step takes 0.6 s less than an eager one"


def test_of_several_functions_the_verdict_is_about_the_first_whose_choice_it_is() -> None:
    """As in TensorFlow, where each function that trains has ways of its own."""
    first, second = choose({"jit_compile": 0.5}), choose({"jit_compile": 1.5})
    for one, other, words in ((first, second, "Worth it: jit_compile"), (second, first, "Not worth it here")):
        rows = [
            {"function": name, **row}
            for name, choice in (("train", one), ("critic", other))
            for row in choice["candidates"]
        ]
        assert first_lines(merged({**one, "candidates": rows}))[0].startswith(words)


@pytest.mark.parametrize(
    ("blocks", "progress"),
    [
        (0, "only the eager steps at the start were measured"),
        (1, "inductor was not measured yet"),
        (9, "3 of 6 to 30 pairs of inductor were measured"),
    ],
)
def test_a_job_that_ended_before_a_way_was_chosen_reads_how_far_it_came(blocks: int, progress: str) -> None:
    verdict, advice = first_lines(merged(choose({"inductor": 0.5}, blocks)))
    assert verdict == f"No way was chosen: the job ended first, after 98 steps: {progress}; compiling took 236 s."
    assert advice.startswith("To change: next time DLC_COMPILER=off, or DLC_COMPILE_CACHE=FOLDER")
    running = merged(choose({"inductor": 0.5}, blocks), state="running")
    assert first_lines(running)[0].startswith(f"No way was chosen yet: 98 steps so far: {progress}")


def test_a_job_that_was_stopped_while_it_compiled_reads_so_in_its_first_line() -> None:
    for choosing in (choose({"inductor": 0.5}, 1), {}):
        report = merged(choosing, compiling=[{"function": "Net", "seconds": 71.3}])
        verdict = first_lines(report)[0]
        assert verdict == "Stopped after 98 steps while Net was compiled, after 71 s of compiling."


def test_a_job_that_was_too_short_for_the_budget_reads_what_compiling_would_have_taken() -> None:
    choosing = Choosing(["inductor"], Budget(0, 0.02), 3)
    choosing.end_block(Result(1.0, 3.0, step=3, elapsed=40.0, expected=25.0))
    report = merged(choosing.as_json(), graphs=[], modules=[], compile_seconds=0.0)
    verdict, advice = first_lines(report)
    assert verdict.endswith(
        "Nothing was compiled in 98 steps, the job was too short: inductor not begun: it would take about 25 s, "
        "this job has run 40 s, choosing may take 0.8 s (DLC_COMPILER_BUDGET)."
    )
    assert advice.endswith("a longer job begins it; DLC_COMPILER_BUDGET=60,5% lets it begin at once.")


def test_a_refused_way_is_named_with_its_reason() -> None:
    choosing = Choosing(["inductor"], Budget(), 3)
    choosing.end_block(Result(1.0, 3.0, step=3))
    choosing.end_block(Result(1.0, 1.0, 0.0, "Net: it differs from eager by 0.25", step=4))
    verdict, _ = first_lines(merged(choosing.as_json()))
    assert verdict.startswith("Eager in 98 steps, because no other way could be used: inductor: Net: it differs from ")


@pytest.mark.parametrize(
    ("eager", "verdict", "advice"),
    [
        ([], "no graph was made of Net.", "next time DLC_COMPILER=off."),
        (
            [{"module": "Tagger", "reason": "Dynamo does not trace LSTM", "remedy": "use another layer"}],
            "Tagger: Dynamo does not trace LSTM.",
            "use another layer.",
        ),
    ],
)
def test_where_nothing_was_compiled_no_speed_is_said(eager: list[dict[str, str]], verdict: str, advice: str) -> None:
    report = merged(choose({"inductor": 0.5}), graphs=[], eager=eager)
    without = merged({}, graphs=[], eager=eager)
    assert first_lines(without) == [f"Nothing was compiled in 98 steps: {verdict}", f"To change: {advice}"]
    assert report["steps"]["after"]["median_seconds"] is None
    for found in (report, without):
        text = summary(found, "") + re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", render_page(found), flags=re.DOTALL)
        assert "500 ms" not in text
    assert "times as fast" not in summary(without, "") + render_page(without)


def test_a_job_that_did_not_measure_reads_how_it_would() -> None:
    verdict, advice = first_lines(merged({}))
    assert verdict == "Compiled without measuring whether that is faster than eager: compiling took 236 s."
    assert "DLC_COMPILER_MODE" in advice


def test_cards_show_the_figures_of_the_table_and_no_others() -> None:
    page = render_page(merged(choose({"inductor": 0.9})))
    cards = page.partition('<div class="tiles">')[2].partition("<h2>")[0]
    assert "<b>900 ms</b><span>a step, inductor, in the same pairs</span>" in cards
    assert "<b>1 s</b><span>a step, eager, in 6 pairs with inductor</span>" in cards
    row = page.partition("<td>inductor</td>")[2].partition("</tr>")[0]
    assert [text for text in re.findall(r">([^<]+)</td>", row) if text.endswith("s")] == ["900 ms", "1 s", "1 s"], row
    assert "883 ms" not in re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)


def test_cards_and_columns_without_a_value_are_left_out() -> None:
    page = render_page(merged(choose({"inductor": 1.5})))
    assert not re.search(r"<b>(-|0|)</b>", page)
    heads = re.findall(r'<button type="button">([^<]+)</button>', page)
    assert not {"peak memory", "function"} & set(heads[: heads.index("compiling") + 1])
    empty = re.findall(r"<td([^>]*)>(-|)</td>", page)
    assert empty != []
    assert all("empty" in attributes for attributes, _ in empty)


def test_good_news_stands_below_notes_once_and_not_below_warnings() -> None:
    note = "SGD: fused steps are used: 1.31 to 1.42 times as fast as its own"
    page = render_page(merged(choose({"inductor": 0.5}), notes=[note], warnings=["Net: padding"]))
    assert page.count(note) == 1
    assert (
        page.index("<h2>Warnings</h2>") < page.index("Net: padding") < page.index("<h2>Notes</h2>") < page.index(note)
    )


def test_what_was_compared_has_a_row_for_each_line_of_each_way() -> None:
    choosing = choose({"inductor": 0.5})
    choosing["candidates"][1]["compared"] = "graph 0/0: outputs within 1e-7\ngraph 0/1: gradients within 2e-7"
    page = render_page(merged(choosing))
    table = page.partition("<h2>Compared with eager")[2].partition("</section>")[0]
    assert re.findall(r"<td>([^<]+)</td><td>([^<]+)</td>", table) == [
        ("inductor", "graph 0/0: outputs within 1e-7"),
        ("inductor", "graph 0/1: gradients within 2e-7"),
    ]


class Thing:
    """In place of an optimizer."""


def test_an_optimizer_that_joins_is_taken_in_when_it_has_stepped_often_enough() -> None:
    known, main, copied = Newcomers(), Thing(), Thing()
    assert known.takes_in(main, None)  # type: ignore[arg-type]
    taken = [known.takes_in(copied, main) for _ in range(STEPS_TO_STAY + 2)]  # type: ignore[arg-type]
    assert taken.index(True) == STEPS_TO_STAY - 1
    assert taken.count(True) == 1
    assert known.pop_new() == [main, copied]
    assert known.pop_new() == []
