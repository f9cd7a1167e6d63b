"""The rows of a run, the most important first: what does not fit into the minutes is left out from the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from gpu_rows import measures
from gpu_rows.host import Host
from gpu_rows.measures import AUTO, DEFAULT, EAGER, GRAPHS, ROUNDED
from gpu_rows.rows import Result, Row

MODELS = ("bert", "gpt", "resnet", "vit", "llama")
MINUTES = 8.0
AUTO_SECONDS, REHEARSED_SECONDS = 30.0, 10.0  # of training in a row of the runtime's choice, in MINUTES
EAGER_SECONDS = 20.0  # of an eager training at most
MANY_STEPS = 4000  # more than the seconds have room for
KNOWN_STEPS = 80  # of a training whose way is known: enough for a median, and for losses to compare
PROFILED_STEPS = 40


class Planner(NamedTuple):
    """`seconds`: of training where the runtime chooses. `done`: the results so far, by the rows' names."""

    host: Host
    done: Mapping[str, Result]
    seconds: float

    def row(self, name: str, seconds: float, measure: Callable[[float], Any], packages: Sequence[str]) -> Row:
        """Make a row that works for so many seconds, imports and models not counted. A rehearsal's host may be busy."""
        needs, bound = (5.0, 600.0) if self.host.rehearse else (seconds + 10.0, 2 * seconds + 60.0)
        return Row(name, needs, bound, measure, self.host.lacks(*packages))

    def ahead(self, models: Sequence[str], dtype: str, ways: Sequence[str]) -> list[Row]:
        """Compile all models at once: compiling takes one core each, and minutes are short."""
        measure = partial(measures.compile_ahead, self.host, models, dtype, ways)
        return [self.row(f"model {dtype}: compiling ahead", 60, measure, ["transformers"])]

    def models(self, models: Sequence[str], dtype: str) -> list[Row]:
        """Of each model the runtime's choice, then eager until some steps after that choice."""
        found = []
        for model in models:
            name = f"model {model} {dtype}"
            choice = partial(measures.train, self.host, model, dtype, AUTO, MANY_STEPS, self.seconds)
            eager = partial(self.eager, model, dtype, EAGER)
            found.append(self.row(f"{name} {AUTO}", self.seconds, choice, ["transformers"]))
            found.append(self.row(f"{name} {EAGER}", 10, eager, ["transformers"]))
        return found

    def eager(self, model: str, dtype: str, way: str, bound: float) -> Mapping[str, Any]:
        steps = measures.steps_to_compare(self.done, f"model {model} {dtype} {AUTO}", KNOWN_STEPS)
        return measures.train(self.host, model, dtype, way, steps, EAGER_SECONDS, bound)

    def rounded(self, models: Sequence[str], dtype: str) -> list[Row]:
        """Of each model how far rounding alone carries its losses: what those of other ways are allowed as well."""
        return [
            self.row(
                f"model {model} {dtype} {ROUNDED}", 10, partial(self.eager, model, dtype, ROUNDED), ["transformers"]
            )
            for model in models
        ]

    def variants(self, models: Sequence[str], dtype: str, ways: Sequence[str]) -> list[Row]:
        """Of each model the ways that the runtime may choose, each from the start of compiling on."""
        return [
            self.row(
                f"model {model} {dtype} {way}", 15,
                partial(measures.train, self.host, model, dtype, way, KNOWN_STEPS, 2 * EAGER_SECONDS), ["transformers"],
            )
            for way in ways for model in models
        ]  # fmt: skip

    def jobs(self) -> list[Row]:
        """Everything that is not one of the models."""
        host, seconds, trainer = self.host, self.seconds, ("transformers", "accelerate")
        on = partial(measures.trainer, host, AUTO, MANY_STEPS, seconds)
        off = partial(measures.trainer, host, EAGER, MANY_STEPS, seconds / 2)
        profile = partial(measures.profile, host, PROFILED_STEPS, seconds)
        return [
            self.row("trainer on", seconds, on, trainer),
            self.row("trainer off", seconds / 2, off, trainer),
            self.row("feed local", 10, partial(measures.feed, host, "local"), []),
            self.row("feed remote", 10, partial(measures.feed, host, "remote"), ["grpc", "grpc_health"]),
            self.row("suite", 40, partial(measures.suite, host), ["pytest"]),
            self.row("profile", seconds, profile, trainer),
        ]


def plan(host: Host, minutes: float, done: Mapping[str, Result]) -> list[Row]:
    """Return the rows of a run; a rehearsal has one of each kind."""
    if host.rehearse:
        return rehearsed(Planner(host, done, REHEARSED_SECONDS), ("bert",), (DEFAULT,))
    planner = Planner(host, done, AUTO_SECONDS * minutes / MINUTES)
    rows = planner.ahead(MODELS, "bf16", (DEFAULT, GRAPHS)) + planner.models(MODELS, "bf16") + planner.jobs()
    rows += planner.variants(MODELS, "bf16", (GRAPHS, DEFAULT))
    rows += planner.models(MODELS, "fp32") + planner.rounded(MODELS, "fp32")
    return rows + planner.variants(MODELS, "fp32", (GRAPHS, DEFAULT))


def rehearsed(planner: Planner, models: Sequence[str], ways: Sequence[str]) -> list[Row]:
    rows = planner.ahead(models, "bf16", ways) + planner.models(models, "bf16") + planner.jobs()
    return rows + planner.rounded(models, "bf16") + planner.variants(models, "bf16", ways)
