"""Chooses the fastest way of a training's steps by measuring blocks of steps; pure.

Whoever runs the steps asks `block` what comes next, and tells with `end_block` how it went. If several ranks train
one model, all tell the seconds of the slowest rank, so all choose alike at the same step.
"""

from __future__ import annotations

from math import ceil

from dlc_runtime.compiler.choosing.candidates import EAGER, WINDOW_STEPS, Block, Budget, Candidate, Result, Spent
from dlc_runtime.compiler.choosing.verdict import FASTER, FEWEST_PAIRS, SLOWER, Pair, judge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from typing import Any

BLOCK_SECONDS, MOST_BLOCK_STEPS = 0.2, 50
# Pairs of one candidate: if the interval is undecided then, the difference is small.
MOST_PAIRS = 30
# Look after so many pairs: looking at each would find a difference by chance more often.
LOOK_EVERY = 3
# Blocks of one candidate in which something was compiled.
MOST_THROWN = 20
# So many compiling blocks are waited for when the budget is used up.
PATIENCE = 3
# The chosen way is compared with eager once in so many steps.
CHECK_STEPS, MOST_CHECK_PAIRS = 1000, 12
NONE_FASTER = "no other way was faster for sure"
NOT_BEGUN = "no other way was begun"
# Seconds in which compiled code is loaded, until it was measured.
LOADING = 3.0
# A job is expected to last as long again as it has lasted: what may begin by then is prepared beside the training.
PREPARE_AHEAD = 2
# So many times slower or faster than at the decision, in windows in a row, and something changed.
DRIFT = 1.25
# Such windows in a row, or as many with other shapes; after each new choice twice as many: some hosts never rest.
DRIFTS = 2


class Choosing:
    """The choice of one job. `kept`: the way that a job before chose, or "", and the words for it.

    `spent`: of a job that makes several choices, which have one budget.
    """

    def __init__(
        self,
        candidates: Sequence[str],
        budget: tuple[float, float],
        eager_steps: int,
        kept: tuple[str, str] = ("", ""),
        spent: Spent | None = None,
    ) -> None:
        self.budget = Budget(*budget)
        self.candidates = {way: Candidate(way) for way in (EAGER, *candidates)}
        self.way = EAGER  # the best so far
        # The way that is being measured.
        self.trying = ""
        # The step after which the way was decided; 0 before.
        self.decided_at = 0
        self.reason = ""  # of the decision, in words
        # Seconds beyond what the best way so far would have taken.
        self.spent = 0.0
        self._all = spent if spent is not None else Spent()
        self.elapsed = 0.0
        # Seconds that the next way would take to begin.
        self.expected = 0.0
        # Lines for the log; whoever says them takes them out.
        self.news: list[str] = []
        self._kept, self._eager_steps = kept, eager_steps
        self._last_way, self._step, self._block_steps = EAGER, 0, 1
        # Changed windows after which the job chooses again.
        self._drifts = DRIFTS
        if kept[0] not in self.candidates:
            self._call_others()
        self._course = self._job()
        self.block = next(self._course)

    def end_block(self, result: Result) -> None:
        self.block = self._course.send(result)

    def as_json(self) -> dict[str, Any]:
        return {
            "way": self.way if self.decided_at else "",
            "from_step": self.decided_at + 1 if self.decided_at else None,
            "words": self.words(),
            "progress": "" if self.decided_at else self.progress(),
            "kept": self._kept[0] == self.way and bool(self.decided_at),
            "spent_seconds": round(self._all.seconds, 3),
            "allowed_seconds": round(self.budget.limit(self.elapsed), 3),
            "candidates": [candidate.as_json() for candidate in self.candidates.values()],
        }

    def is_known(self) -> bool:
        """Tell whether another job can skip measuring: a way was taken, or each was left for sure.

        A busy host leaves measurements undecided: the next job measures again.
        """
        others = [candidate for candidate in self.candidates.values() if candidate.way != EAGER]
        left = all(other.refused or (other.verdict and other.verdict.is_sure) for other in others)
        return self.decided_at > 0 and (self.way != EAGER or left)

    def words(self) -> str:
        """Say what was chosen, or that it is open."""
        if self.decided_at:
            return f"{self.way} from step {self.decided_at + 1} on: {self.reason}{self._tried()}"
        return f"no way was chosen yet: {self.progress()}{self._tried()}" if len(self.candidates) > 1 else ""

    def progress(self) -> str:
        """Say how far choosing has come."""
        candidate = self.candidates.get(self.trying)
        if candidate is None:
            return "only the eager steps at the start were measured"
        if candidate.verdict is None:
            return f"{candidate.way} was not measured yet"
        return f"{candidate.verdict.pairs} of {FEWEST_PAIRS} to {MOST_PAIRS} pairs of {candidate.way} were measured"

    def _tried(self) -> str:
        tried = "; ".join(
            f"{other.way} ({other.verdict.words() if other.verdict else other.outcome})"
            for other in self.candidates.values()
            if other.way not in (EAGER, self.way, self.trying) and (other.verdict or other.outcome)
        )
        return f"; tried: {tried}" if tried else ""

    # -- the course of a job --------------------------------------------------------------------------------------

    def _job(self) -> Generator[Block, Result, None]:
        yield from self._baseline()
        if self._kept[0] in self.candidates:
            self._take_kept()
            if self.way != EAGER:
                yield from self._check_kept(self.candidates[self.way])
        else:
            yield from self._choose()
        while True:
            changed = yield from self._watch()
            if changed:
                self._drifts *= 2
                self.news.append(f"{changed} after step {self._step}: choosing again")
                yield from self._baseline()
            yield from self._choose()

    def _baseline(self) -> Generator[Block, Result, None]:
        """Measure the best way so far anew."""
        self.candidates[self.way].blocks = []
        result = yield from self._run(self.way, 0, self._eager_steps)
        self._block_steps = block_steps(result.seconds or BLOCK_SECONDS)

    def _call_others(self) -> None:
        """Let all ways that can be used meet the chosen one when the budget allows it."""
        for candidate in self.candidates.values():
            candidate.is_due = candidate.way not in (EAGER, self.way)

    @property
    def next_way(self) -> str:
        """The way that is tried as soon as the budget allows it; "" if there is none."""
        return next((candidate.way for candidate in self.candidates.values() if candidate.is_waiting), "")

    @property
    def may_prepare(self) -> bool:
        """Tell whether the next way may be compiled beside the training: soon it may be loaded."""
        soon = PREPARE_AHEAD * self.elapsed
        return self.next_way != "" and self.budget.allows(self._all.seconds, soon, LOADING)

    def _may_choose(self) -> bool:
        waiting = self.candidates.get(self.next_way)
        if waiting is None or self._may_begin(waiting):
            return waiting is not None
        if not waiting.was_measured:
            waiting.outcome = self._not_begun()
        return False

    def _may_begin(self, candidate: Candidate) -> bool:
        """Tell whether the budget has room for what the job would wait. What was measured before is compiled."""
        expected = 0.0 if candidate.was_measured else self.expected
        return self.budget.allows(self._all.seconds, self.elapsed, expected)

    def _not_begun(self) -> str:
        if not self.expected or not self.budget.limit(self.elapsed):
            return f"not tried: {self.budget_words()}"
        return (
            f"not begun: it would take about {self.expected:.0f} s, this job has run {self.elapsed:.0f} s, "
            f"{self.budget_words()}"
        )

    def _take_kept(self) -> None:
        self.way, self.reason = self._kept
        self.candidates[self.way].outcome = f"taken as by a job before: {self.reason}"
        self.decided_at = self._step
        self.news.append(f"{self.way} from step {self._step + 1} on, as a job before has chosen: {self.reason}")

    def _choose(self) -> Generator[Block, Result, None]:
        before = self.way
        for candidate in self.candidates.values():
            if not candidate.is_waiting:
                continue
            if self._may_begin(candidate):
                self.trying = candidate.way
                yield from self._try(candidate)
                self.trying = ""
            elif candidate.outcome:
                # Its result of before stands.
                continue
            else:
                candidate.outcome = self._not_begun()
            self.news.append(candidate.line())
        self._decide(before)

    def _decide(self, before: str) -> None:
        """Take the best way. `before`: the way that the job ran until it chose."""
        if self.way == before != EAGER:
            self.news.append(f"{self.way} stays: {NONE_FASTER}")
            return
        begun = any(candidate.was_begun for candidate in self.candidates.values())
        if self.reason in ("", NOT_BEGUN):
            self.reason = NONE_FASTER if begun else NOT_BEGUN
        self.decided_at = self._step
        self.candidates[EAGER].outcome = f"taken: {self.reason}" if self.way == EAGER else "left"
        self.news.append(self.words())

    def _try(self, candidate: Candidate) -> Generator[Block, Result, None]:
        candidate.forget(self.way)
        candidate.is_due, candidate.was_begun, candidate.outcome = False, True, "being measured"
        if not (yield from self._warm_up(candidate)):
            return
        pairs: list[Pair] = []
        # Each candidate is let be measured once; what is measured again takes what is left of the budget.
        thrown, is_first, spent_before = 0, not candidate.was_measured, self.spent
        candidate.was_measured = True
        while len(pairs) < MOST_PAIRS and thrown < MOST_THROWN:
            pair = yield from self._pair(self.way, candidate, other_first=len(pairs) % 2 == 0)
            if candidate.refused:
                return
            if self.candidates[self.way].refused:
                self._give_up()
                break
            if pair is None:
                thrown += 1
                continue
            pairs.append(pair)
            verdict = candidate.judge(pairs, self.way)
            if len(pairs) >= FEWEST_PAIRS and len(pairs) % LOOK_EVERY == 0 and verdict.is_sure:
                break
            if not self.budget.allows(self.spent - spent_before if is_first else self._all.seconds, self.elapsed):
                break
        self._end_trial(candidate)

    def _end_trial(self, candidate: Candidate) -> None:
        verdict = candidate.verdict
        if verdict is not None and verdict.kind == FASTER:
            if self.way != EAGER:
                self.candidates[self.way].outcome = f"left for {candidate.way}"
            self.way, candidate.outcome = candidate.way, "taken"
            self.reason = f"{verdict.words()} as {candidate.against}"
        elif verdict is not None and verdict.is_sure:
            candidate.outcome = "left: slower" if verdict.kind == SLOWER else "left: no faster"
        else:
            candidate.outcome = f"left: not seen to be faster with {verdict.pairs if verdict else 0} pairs of blocks"

    def _warm_up(self, candidate: Candidate) -> Generator[Block, Result, bool]:
        """Run single steps until one compiles nothing; return whether the candidate can be measured."""
        while candidate.thrown < MOST_THROWN:
            result = yield from self._run(candidate.way, 0, 1)
            # The first step after compiling is like a step after a switch.
            self._last_way = ""
            if candidate.refused:
                return False
            if not result.compiling:
                candidate.thrown = 0
                return True
            candidate.thrown += 1
            if candidate.thrown >= PATIENCE and not self._budget_allows():
                candidate.outcome, candidate.is_due = f"left: still compiling, {self.budget_words()}", True
                return False
        candidate.refused = f"compiled again in each of {MOST_THROWN} steps"
        candidate.outcome = f"left: {candidate.refused}"
        return False

    def _pair(self, base: str, candidate: Candidate, other_first: bool) -> Generator[Block, Result, Pair | None]:
        """Run a block of each way; None if something was compiled or failed meanwhile.

        Which one is first changes with each pair: what slowly grows or shrinks on the host cancels out.
        """
        found: dict[str, Result] = {}
        for way in (candidate.way, base) if other_first else (base, candidate.way):
            found[way] = yield from self._run(way, int(way != self._last_way), self._block_steps)
            if found[way].failed or found[way].compiling or found[way].seconds is None:
                return None
        return Pair(found[base].seconds or 0.0, found[candidate.way].seconds or 0.0)

    def _run(self, way: str, skipped: int, steps: int) -> Generator[Block, Result, Result]:
        block = Block(way, skipped, steps)
        result = yield block
        candidate = self.candidates[way]
        candidate.note(block, result)
        self._last_way, self._step, self.elapsed, self.expected = way, result.step, result.elapsed, result.expected
        best = self.candidates[self.way].seconds
        if way != self.way and best is not None:
            lost = max(0.0, result.took - best * (skipped + steps))
            self.spent += lost
            self._all.seconds += lost
        return result

    def _budget_allows(self) -> bool:
        return self.budget.allows(self._all.seconds, self.elapsed)

    def budget_words(self) -> str:
        """Say what choosing may cost, and with which variable that is changed."""
        limit = self.budget.limit(self.elapsed)
        return f"choosing may take {round(limit, 1 if 0 < limit < 10 else None)} s (DLC_COMPILER_BUDGET)"

    # -- after the decision ---------------------------------------------------------------------------------------

    def _watch(self) -> Generator[Block, Result, str]:
        """Run the chosen way until others may meet it; return what has changed, "" if the budget has grown."""
        reference, changed, steps = self.candidates[self.way].seconds, 0, 0
        shapes, last, stays = 0, 0, 0
        while True:
            way, what = self.way, ""
            result = yield from self._run(way, 0, WINDOW_STEPS)
            steps += WINDOW_STEPS
            reference = reference or result.seconds
            changed = drifted_on(changed, result.seconds / reference if reference and result.seconds else 1.0)
            shapes = shapes or result.shapes
            stays = 0 if result.shapes in (0, shapes) else stays + 1 if result.shapes == last else 1
            last = result.shapes
            if self.candidates[way].refused:
                self._give_up()
            elif way != EAGER and (DRIFTS in (abs(changed), stays) or steps >= CHECK_STEPS):
                steps = 0
                yield from self._check(self.candidates[way])
            if self.way != way:
                reference, changed, stays = None, 0, 0
            elif max(abs(changed), stays) >= self._drifts and self._budget_allows():
                self._call_others()
                new_shapes = stays >= self._drifts
                what = "the data have other shapes" if new_shapes else f"{way} steps changed their speed for good"
            if self._may_choose():
                return what

    def _check_kept(self, candidate: Candidate) -> Generator[Block, Result, None]:
        """Compare an earlier job's choice with eager once it is compiled: today the host may be busy, or slower."""
        for _ in range(MOST_THROWN):
            result = yield from self._run(candidate.way, 0, 1)
            self._last_way = ""  # the first step after compiling is as one after a switch
            if candidate.refused:
                return self._give_up()
            if not result.compiling:
                break
        yield from self._check(candidate)
        return None

    def _check(self, candidate: Candidate) -> Generator[Block, Result, None]:
        """Compare the chosen way with eager: one pair, and more if eager was faster; give the way up for sure only."""
        pairs: list[Pair] = []
        for number in range(MOST_CHECK_PAIRS):
            pair = yield from self._pair(EAGER, candidate, other_first=number % 2 == 0)
            if candidate.refused:
                return self._give_up()
            if pair is None:
                continue
            pairs.append(pair)
            if judge(pairs).kind == SLOWER and len(pairs) % LOOK_EVERY == 0:
                candidate.refused = f"{candidate.judge(pairs, EAGER).words()} as eager"
                return self._give_up()
            if pairs[0].base >= pairs[0].other:
                return None
        return None

    def _give_up(self) -> None:
        given_up = self.candidates[self.way]
        given_up.outcome = f"given up after step {self._step}: {given_up.refused}"
        self.way, self.decided_at = EAGER, self._step
        self.reason = f"{given_up.way} was given up: {given_up.refused}"
        self.candidates[EAGER].outcome = f"taken: {self.reason}"
        self._call_others()
        self.news.append(f"eager from step {self._step + 1} on: {self.reason}")


def drifted_on(windows: int, ratio: float) -> int:
    """Count windows in a row that were slower, or below 0 those that were faster."""
    if ratio > DRIFT:
        return max(windows, 0) + 1
    return min(windows, 0) - 1 if ratio * DRIFT < 1 else 0


def block_steps(seconds: float) -> int:
    """Return how many steps of so many seconds are a block."""
    return max(1, min(MOST_BLOCK_STEPS, ceil(BLOCK_SECONDS / seconds))) if seconds > 0 else MOST_BLOCK_STEPS
