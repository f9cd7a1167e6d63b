"""advice holds for any job and any prices: it never advises what is slower or dearer than doing nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dlc.advice.cost_model import COMPUTING, DATA_HOSTS, EVERYWHERE, Cluster, Machine, Workload, estimate_step
from dlc.advice.decide import COST, SPEED, Advice, make_advice
from dlc.advice.render import advice_json, draw_svg, list_prices, make_choices_table, write_verdict

price = st.none() | st.floats(0.01, 100)


def machine(name: str, gpus: int) -> st.SearchStrategy[Machine]:
    return st.builds(
        Machine, st.just(name), st.integers(1, 256), st.just(gpus), st.just("A" if gpus else ""), st.just(64.0),
        st.floats(1, 400), st.booleans(), price, st.just("here"),
    )  # fmt: skip


jobs = st.builds(
    Workload, st.floats(0.001, 10), st.floats(1e-9, 100), st.floats(1e-9, 100), st.sampled_from([0.0, 1e6, 1e10]),
    st.sampled_from([EVERYWHERE, DATA_HOSTS]), st.integers(0, 64),
)  # fmt: skip


@st.composite
def advices(draw: st.DrawFn) -> tuple[Advice, str]:
    machines = [draw(machine(f"g.{number}", 4)) for number in range(3)]
    data = [draw(machine(f"c.{number}", 0)) for number in range(2)]
    now = Cluster(machines[0], draw(st.integers(1, 4)))
    goal, extra = draw(st.sampled_from([COST, SPEED])), draw(st.none() | st.floats(0.001, 1))
    return make_advice(now, draw(jobs), {m.name: m for m in [*machines, *data]}, data, goal, extra), goal


@given(advices())
def test_the_choice_is_one_of_those_shown_and_neither_slower_nor_dearer_than_now(found: tuple[Advice, str]) -> None:
    advice, goal = found
    assert advice.chosen in advice.choices
    assert advice.chosen.result.seconds <= advice.now.seconds or advice.chosen.result.cost is not None
    priced = all(choice.result.cost is not None for choice in advice.choices)
    if goal == COST and priced:
        assert (advice.chosen.result.cost or 0) <= (advice.now.cost or 0) * 1.05
    if goal == SPEED:
        assert advice.chosen.result.seconds <= advice.now.seconds * 1.05


@given(advices())
def test_what_never_waits_for_data_is_left_as_it_is(found: tuple[Advice, str]) -> None:
    advice, _ = found
    if advice.now.bound == COMPUTING:
        assert advice.chosen is advice.choices[0]
        assert advice.now.use == 1


@given(advices())
def test_any_advice_can_be_printed_drawn_and_given_to_programs(found: tuple[Advice, str]) -> None:
    advice, _ = found
    rows = [choice.result for choice in advice.choices]
    assert len(make_choices_table(advice).splitlines()) == len(rows) + 1
    assert write_verdict(advice)
    assert draw_svg(rows).endswith("</svg>\n")
    assert advice_json(None, advice, ())["chosen"] == advice.choices.index(advice.chosen)
    assert list_prices(rows)


@given(jobs, machine("g.1", 8), machine("c.1", 0), st.integers(1, 20))
def test_one_data_host_more_makes_no_step_longer(job: Workload, own: Machine, data: Machine, count: int) -> None:
    fewer, more = (estimate_step(Cluster(own, 1, data, number), job) for number in (count, count + 1))
    assert more.seconds <= fewer.seconds * (1 + 1e-9) or more.bound == "network"
