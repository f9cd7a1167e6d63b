"""What the rows showed, as a markdown page: losses and times beside eager's, and what failed or was left out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import geometric_mean
from typing import Any

from compiling import losses
from compiling.figures import GPU_GOAL, LEAST_ON_GPU

from gpu_rows.rows import FAILED, LEFT_OUT, MEASURED, Result

EAGER, ROUNDED, AUTO = "eager", "rounded", "auto"
TRAINER = "trainer"
MEAN_OF = "bf16"  # whose models' mean has a goal
MOST_CHOOSING = 60.0  # seconds beside compiling
MOST_MEMORY = 1.0  # of eager's


def compared(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return the trainings' figures with how often as fast as eager they are, and how far their losses differ."""
    trainings = [result.figures for result in results if result.state == MEASURED and "way" in result.figures]
    eager = {key_of(each): each for each in trainings if each["way"] == EAGER}
    rounded = {key_of(each): each["losses"] for each in trainings if each["way"] == ROUNDED}
    shown = [each for each in trainings if each["way"] != ROUNDED]
    return [beside(each, eager.get(key_of(each)), rounded.get(key_of(each), [])) for each in shown]


def key_of(figures: Mapping[str, Any]) -> tuple[str, str]:
    return figures.get("model", TRAINER), figures["dtype"]


def beside(figures: Mapping[str, Any], eager: Mapping[str, Any] | None, rounded: Sequence[float]) -> dict[str, Any]:
    dtype = key_of(figures)[1]
    found = {**figures, "times": None, "loss_difference": None, "losses_compared": 0, "same": True, "memory": None}
    if eager is None or figures["way"] == EAGER:
        return found
    difference = losses.compare(eager["losses"], figures["losses"], rounded, dtype)
    times = eager["ms"] / figures["ms"] if is_settled(figures) else None
    found |= {"times": times, "loss_difference": difference, "losses_compared": difference.steps if difference else 0}
    found["memory"] = figures["peak_gb"] / eager["peak_gb"] if eager["peak_gb"] and figures["peak_gb"] else None
    return found | {"same": losses.is_same(difference)}


def is_settled(figures: Mapping[str, Any]) -> bool:
    """Return whether a training's latest steps tell a speed: false while it still compiled or measured candidates."""
    if "choosing" in figures:
        return bool(figures["choosing"]["from_step"])
    return bool(figures.get("compiled_steps", 1))


def page(facts: Mapping[str, Any], results: Sequence[Result], commit: str) -> str:
    trainings = compared(results)
    parts = [head(facts, commit), training_table(trainings), mean_line(trainings), goals(trainings)]
    parts.append(choice_table(trainings))
    parts += [other(result) for result in results if result.state == MEASURED and "way" not in result.figures]
    parts.append(unmeasured(results))
    return "\n\n".join(part for part in parts if part) + "\n"


def head(facts: Mapping[str, Any], commit: str) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in facts["packages"].items())
    card = facts["card"] or facts["gpu"] or "no GPU: a rehearsal, whose figures say nothing"
    lines = [f"{facts['date']}, commit {commit}: {card}; {facts['cores']} cores, Python {facts['python']}, {packages}."]
    return "\n".join([*lines, *(f"Note: {note}." for note in facts["notes"])])


TRAINING_HEADS = ("training", "dtype", "way", "ms a step", "times as fast as eager", "compile s", "peak GB", "losses")


def training_table(trainings: Sequence[Mapping[str, Any]]) -> str:
    if not trainings:
        return ""
    return markdown(TRAINING_HEADS, [training_cells(each) for each in trainings])


def training_cells(each: Mapping[str, Any]) -> tuple[str, ...]:
    model, dtype = key_of(each)
    told = "" if each["way"] == EAGER else losses.verdict(each["loss_difference"], dtype)
    steps = f", {each['losses_compared']} compared" if each["losses_compared"] else ""
    compiling = f"{each['compile_seconds']:.1f}" if "compile_seconds" in each else ""
    times = f"{each['times']:.2f}" if each["times"] else "" if is_settled(each) else "ended too early"
    peak = f"{each['peak_gb']:.1f}" if each["peak_gb"] else ""
    return model, dtype, each["way"], f"{each['ms']:.1f}", times, compiling, peak, f"{told}{steps}"


def mean_line(trainings: Iterable[Mapping[str, Any]]) -> str:
    lines: dict[tuple[str, str], list[float]] = {}
    for each in trainings:
        if each["times"] and "model" in each:
            lines.setdefault((each["dtype"], each["way"]), []).append(each["times"])
    return "\n".join(
        f"{dtype}, {way}: {geometric_mean(times):.2f} times as fast as eager, geometric mean of {len(times)} models; "
        f"lowest {min(times):.2f}."
        for (dtype, way), times in lines.items()
    )


def goals(trainings: Sequence[Mapping[str, Any]]) -> str:
    """Return what is wanted of the trainings as the runtime chose, and whether it is so if that is known."""
    chosen = [each for each in trainings if each["way"] == AUTO]
    known = [each for each in chosen if each["times"]]
    models = [each["times"] for each in known if "model" in each]
    wanted = [each["times"] for each in known if "model" in each and each["dtype"] == MEAN_OF]
    trainer = [each["times"] for each in known if key_of(each)[0] == TRAINER]
    choosing = [each["choosing"]["spent_seconds"] - each["compile_seconds"] for each in chosen if is_timed(each)]
    memory = [each["memory"] for each in known if each["memory"]]
    same = [float(not each["same"]) for each in chosen if each["losses_compared"]]
    lines = [
        goal(f"{MEAN_OF}, geometric mean of the models", geometric_mean(wanted) if wanted else None, GPU_GOAL),
        goal("the model that wins least", min(models, default=None), LEAST_ON_GPU),
        goal("the Trainer's job", min(trainer, default=None), LEAST_ON_GPU),
        goal("seconds of choosing beside compiling", max(choosing, default=None), MOST_CHOOSING, most=True),
        goal("peak memory, times eager's", max(memory, default=None), MOST_MEMORY, most=True),
        goal("trainings whose losses differ", sum(same) if same else None, 0.0, most=True),
    ]
    return "\n".join(filter(None, lines))


def is_timed(each: Mapping[str, Any]) -> bool:
    return "choosing" in each and "compile_seconds" in each and is_settled(each)


def goal(name: str, value: float | None, wanted: float, most: bool = False) -> str:
    if value is None:
        return ""
    met = value <= wanted if most else value >= wanted
    bound = "at most" if most else "at least"
    return f"{name}: {value:.2f}, goal {bound} {wanted:g}: {'met' if met else 'missed'}."


CHOICE_HEADS = ("training", "candidate", "steps", "ms", "beside", "compile s", "memory GB", "outcome")


def choice_table(trainings: Iterable[Mapping[str, Any]]) -> str:
    """Return what the runtime itself measured of each candidate, and what it chose when."""
    rows, chosen = [], []
    for each in (one for one in trainings if one["way"] == AUTO and "choosing" in one):
        name, choosing = " ".join(key_of(each)), each["choosing"]
        rows += [(name, *candidate_cells(candidate)) for candidate in choosing["candidates"]]
        chosen.append(f"{name}: {choosing['words']}; choosing took {choosing['spent_seconds']:.0f} s.")
    return "\n\n".join([markdown(CHOICE_HEADS, rows), "\n".join(chosen)]) if rows else ""


def candidate_cells(candidate: Mapping[str, Any]) -> tuple[str, ...]:
    ms = f"{1000 * candidate['seconds']:.1f}" if candidate["seconds"] else ""
    memory = f"{candidate['memory_bytes'] / 1e9:.1f}" if candidate["memory_bytes"] else ""
    beside = f"{candidate['verdict']} as {candidate['against']}" if candidate["verdict"] else ""
    seconds = f"{candidate['compile_seconds']:.1f}"
    return candidate["way"], str(candidate["steps"]), ms, beside, seconds, memory, candidate["outcome"]


def other(result: Result) -> str:
    """Return a paragraph of a row that is no training."""
    return f"{result.name} ({result.seconds:.0f} s): {words(result.figures)}."


def words(figures: Mapping[str, Any]) -> str:
    return "; ".join(f"{name.replace('_', ' ')}: {said(value)}" for name, value in figures.items())


def said(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name.replace('_', ' ')} {said(each)}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(said(each) for each in value) or "none"
    return "none" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def unmeasured(results: Sequence[Result]) -> str:
    """Return the rows that have no figures, with the reason."""
    rows = [(each.name, each.state, " ".join(each.why.split())) for each in results if each.state in (FAILED, LEFT_OUT)]
    return markdown(("row", "", "why"), rows) if rows else ""


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)])
