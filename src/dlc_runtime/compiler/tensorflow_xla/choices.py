"""Lets functions choose their way by measuring, and keeps the choice for the next job."""

from __future__ import annotations

import functools
import os
import re
import sys
import time
from collections import Counter

from dlc_runtime.compiler import settings as settings_of
from dlc_runtime.compiler.choosing import decisions
from dlc_runtime.compiler.choosing.candidates import EAGER, Budget, Spent
from dlc_runtime.compiler.hooks import log
from dlc_runtime.compiler.tensorflow_xla import peers, tf_internals
from dlc_runtime.compiler.tensorflow_xla.functions import CHOOSING, TrainedFunction
from dlc_runtime.compiler.tensorflow_xla.turns import Turns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from dlc_runtime.compiler.settings import Settings
    from dlc_runtime.compiler.tensorflow_xla.compiled_programs import XlaRecord
    from dlc_runtime.compiler.tensorflow_xla.turns import Share

SEVERAL = (
    "{} processes train together and cannot agree on a way of their steps: XLA compiles them without being measured "
    "against steps without it; DLC_COMPILER=off runs them without it"
)


class Choices:
    """The choices of a process. `folder`: of the cache, "" for none. `written` is called when a way was taken."""

    def __init__(self, settings: Settings, record: XlaRecord, folder: str, written: Callable[[], None]) -> None:
        self._settings, self._record, self._folder, self._written = settings, record, folder, written
        self._began = time.perf_counter()
        self._topics: Counter[str] = Counter()
        # A job may train many models, one after another.
        self._spent = Spent()

    @functools.cached_property
    def _peers(self) -> peers.Peers:
        """Find the peers at the first step that trains: the script has said by then how it distributes."""
        horovod = sys.modules.get(peers.HOROVOD)
        return peers.HorovodPeers(horovod) if peers.is_initialized(horovod) else peers.find_peers(os.environ)

    def can_choose(self) -> bool:
        """Tell whether steps can take turns: those of several processes only if these hear of each other."""
        if self._settings.mode != settings_of.AUTO:
            return False
        if self._peers.count == 1 or self._peers.can_share():
            return True
        note = SEVERAL.format(self._peers.count)
        if note not in self._record.notes:
            self._record.notes.append(note)
            log(note)
        return False

    def begin(self, trained: TrainedFunction, fingerprint: Callable[[], str]) -> None:
        """Begin to choose at the first step, which is measured too. `fingerprint`: of what the function computes."""
        # Others may have kept another decision.
        if self._folder and self._peers.count == 1:
            trained.facts = facts_of(trained, fingerprint())
        kept = decisions.read_decision(self._folder, trained.facts) if trained.facts else ("", "")
        budget = Budget(*self._settings.budget)
        share = self._share(trained.name)
        turns = Turns(trained.ways, budget, self._settings.eager_steps, kept, share, self._spent)
        trained.begin(CHOOSING, turns)
        self._record.choosing = self._record.choosing or turns.choosing
        # Functions of one name may be made without an end.
        self._record.choices.setdefault(trained.name, turns.choosing)

    def teller(self, trained: TrainedFunction) -> Callable[[str], list[str]] | None:
        """Return what tells all processes of the training a text; None for one process.

        It returns the texts of all; none if they cannot hear of each other, or if one has ended.
        """
        if self._peers.count == 1:
            return None
        shares = [self._share(f"{trained.name}.comparison")] if self._peers.can_share() else []

        def tell(text: str) -> list[str]:
            try:
                return [told.strip() for share in shares if share is not None for told in share(text or " ")]
            except Exception:
                shares.clear()
                return []

        return tell

    def _share(self, name: str) -> Share | None:
        """Number functions of one name: they begin to choose in the same order in each process."""
        self._topics[name] += 1
        topic = re.sub(r"\W", "_", f"{name}.{self._topics[name]}")
        return functools.partial(self._peers.share, topic) if self._peers.count > 1 else None

    def take_turn(self, trained: TrainedFunction, turns: Turns, seconds: float, changed: bool, step: int) -> None:
        """Add a step and its seconds. `changed`: something was traced or compiled in it."""
        if trained.refused:
            turns.refuse(trained.refused)
        elapsed = time.perf_counter() - self._began
        turns.add(seconds, changed, elapsed, step, tf_internals.take_memory_peak, trained.aside)
        for text in turns.choosing.news:
            log(f"{trained.name}: {text}")
        turns.choosing.news.clear()
        if turns.way != EAGER and not trained.compiled_calls:
            random = trained.way in trained.random
            self._record.add_compiled(trained.name, trained.file, trained.line, trained.parameters, random)
            log(f"compiling {trained.name} with xla ({turns.way}), after {step} steps without it")
        if turns.choosing.decided_at != trained.decided_at:
            trained.decided_at = turns.choosing.decided_at
            self._note(trained, turns)

    def _note(self, trained: TrainedFunction, turns: Turns) -> None:
        way, reason = turns.choosing.way, turns.choosing.reason
        if way == EAGER:
            self._record.add_eager(trained.name, f"it runs without XLA: {reason}")
        # The report has a table of one.
        if self._record.choosing is not turns.choosing:
            self._record.notes.append(f"{trained.name}: {turns.choosing.words()}")
        if trained.facts and turns.choosing.is_known():
            decisions.write_decision(self._folder, trained.facts, way, reason)
        self._written()


def facts_of(trained: TrainedFunction, graph: str) -> dict[str, Any]:
    """Return what a decision for the next job depends on; nothing if that cannot be told."""
    if not graph or trained.signature is None:
        return {}
    parts = trained.signature.items()
    arguments = {name: str(leaf.key) if leaf.kind == "shape" else leaf.text for name, leaf in parts}
    return {
        **tf_internals.facts(),
        "function": trained.name,
        "ways": list(trained.ways),
        "graph": graph,
        "arguments": arguments,
    }
