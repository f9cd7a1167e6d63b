"""How many small faults the unit tests of the pure rooms see: a sample of cosmic-ray's mutants for each room.

    .venv/bin/python -m pip install cosmic-ray==8.7.0 coverage==7.17.5
    .venv/bin/python benchmarks/mutation.py [--sample 80] [--seed 1] [--room dlc/plan]... 2>mutants.txt

A mutant is one file with one operator, number, truth value, loop or decorator changed. It is killed if a test fails. A
place in the code is drawn, then one of its mutants, so the same seed means the same mutants until a file changes.
Annotations, which nothing evaluates, are no places. Files change in a copy of the checkout only.

The operators and the changes are cosmic-ray's. Its runner is not used: it starts a Python for each mutant, which takes
ten times as long as the tests. Here each mutant is a fork, and first come the tests that ran its line; what they let
live meets all tests of its room.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import coverage
import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import MutationVisitor
from cosmic_ray.operators.provider import OperatorProvider

ROOT = Path(__file__).parents[1]
# Room below src -> its unit tests, below tests/unit.
ROOMS = {
    "dlc/buildspec": (
        "dlc/test_advice_catalogue.py", "dlc/test_buildspec_errors.py", "dlc/test_buildspec_reference.py",
        "dlc/test_cuda.py", "dlc/test_efa.py", "dlc/test_end_of_support.py", "dlc/test_engine_questions.py",
        "dlc/test_lockfile*.py", "dlc/test_matrix.py", "dlc/test_merging_layers.py", "dlc/test_package_lists.py",
        "dlc/test_schema.py", "dlc/test_selection.py", "dlc/test_size.py", "dlc/test_versions.py",
        "dlc/test_yaml_layers.py",
    ),
    "dlc/plan": (
        "dlc/test_plan.py", "dlc/test_plan_changes.py", "dlc/test_recipe.py", "dlc/test_project.py", "dlc/test_cuda.py",
        "dlc/test_efa.py",
    ),
    "entrypoint/launch/plan": (
        "entrypoint/test_strategies_*.py", "entrypoint/test_conformance.py", "entrypoint/test_compiler_request.py",
        "entrypoint/test_torchrun_ranks.py", "entrypoint/test_tf_data_groups.py", "entrypoint/test_arguments.py",
        "entrypoint/test_instance_groups.py", "entrypoint/test_source.py", "entrypoint/test_failure_hints.py",
        "entrypoint/test_entry_point.py", "entrypoint/test_first_contact.py", "entrypoint/test_bad_input.py",
        "entrypoint/test_reference.py",
    ),
    "dlc_runtime/dataservice/schedule": (
        "runtime/dataservice/test_assignment.py", "runtime/dataservice/test_requests.py",
        "runtime/dataservice/test_leases.py",
    ),
}  # fmt: skip
# Of cosmic-ray's operators those that look like a slip: a bound by one, a condition the wrong way round.
BINARY = ("Add_Sub", "Sub_Add", "Mul_Add", "FloorDiv_Mul", "Mod_FloorDiv", "LShift_RShift", "RShift_LShift",
          "BitOr_BitAnd", "BitAnd_BitOr", "BitXor_BitOr")  # fmt: skip
COMPARISONS = ("Eq_NotEq", "NotEq_Eq", "Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt",
               "Is_IsNot", "IsNot_Is")  # fmt: skip
OPERATORS = (
    *(f"ReplaceBinaryOperator_{name}" for name in BINARY),
    *(f"ReplaceComparisonOperator_{name}" for name in COMPARISONS),
    "AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd",
    "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_USub_UAdd", "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak", "ExceptionReplacer", "NumberReplacer", "RemoveDecorator", "ZeroIterationForLoop",
)  # fmt: skip
PYTEST = ("-q", "-x", "--assert=plain", "--confcutdir=tests/unit", "-o", "timeout=0", "-p", "no:cacheprovider",
          "-p", "pytest_timeout", "-p", "_hypothesis_pytestplugin", "--hypothesis-seed=0")  # fmt: skip
BYTES = 4 * 2**30
# Of the processor, beyond ten times what all tests of the room take: what needs more runs for ever.
LEAST_SECONDS = 10


class Mutant(NamedTuple):
    """One change: the `occurrence`-th that the operator can make in the file."""

    file: str
    line: int
    operator: str
    occurrence: int


class Baseline(NamedTuple):
    """What the room's tests do without a mutant: seconds of the processor, of each test too; file -> line -> tests."""

    seconds: float
    covered: int
    lines: int
    cost: dict[str, float]
    tests: dict[str, dict[int, list[str]]]


class Chosen:
    """A plug-in: runs these tests alone, the quickest first."""

    def __init__(self, names: Collection[str], cost: dict[str, float]) -> None:
        self._names, self._cost = set(names), cost

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = (item for item in items if item.nodeid in self._names)
        items[:] = sorted(chosen, key=lambda item: self._cost[item.nodeid])


class Recorded:
    """A plug-in: records which lines each test runs, and its seconds of the processor."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self._measured = measured
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._measured.switch_context(item.nodeid)
        before = time.process_time()
        result = yield
        self.seconds[item.nodeid] = time.process_time() - before
        self._measured.switch_context("")
        return result


def main() -> None:
    """Print a row for each room; what became of each mutant goes to standard error."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sample", type=int, default=80, help="mutants of each room")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--room", action="append", choices=ROOMS, help="may be repeated; default: all")
    parser.add_argument("--again", type=Path, help="only what SURVIVED by this file, the standard error of another run")
    options = parser.parse_args()
    # Else pytest would find benchmarks/launcher.py in place of the launcher.
    sys.path.remove(str(Path(__file__).parent))
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    again = options.again and options.again.read_text()
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copy_checkout(Path(folder))
        os.chdir(folder)
        print("| room | lines covered | places | sampled | killed | survived |\n|---|---|---|---|---|---|", flush=True)
        for room in options.room or ROOMS:
            print(measure_room(room, options.sample, options.seed, again), flush=True)


def copy_checkout(folder: Path) -> None:
    """Copy the files that git knows."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)


def measure_room(room: str, sample: int, seed: int, again: str | None) -> str:
    """Run a room's sample, of it perhaps only what survived `again`, and return its row of the table."""
    tests = [str(file) for pattern in ROOMS[room] for file in sorted(Path("tests/unit").glob(pattern))]
    baseline = read_baseline(room, tests)
    files = sorted(str(file) for file in Path("src", room).rglob("*.py"))
    places = [place for file in files for place in find_places(file)]
    survived = killed = 0
    for mutant in draw_mutants(places, sample, random.Random(f"{seed} {room}")):
        what = f"{mutant.file}:{mutant.line} {mutant.operator} {show_change(mutant)}"
        if again is not None and f"SURVIVED {what}" not in again:
            continue
        dead = is_killed(mutant, baseline)
        killed, survived = killed + dead, survived + (not dead)
        print(f"{'killed' if dead else 'SURVIVED'} {what}", file=sys.stderr, flush=True)
    percent = 100 * baseline.covered / baseline.lines
    total = killed + survived
    return f"| {room} | {percent:.1f}% of {baseline.lines} | {len(places)} | {total} | {killed} | {survived} |"


def read_baseline(room: str, tests: list[str]) -> Baseline:
    """Run the tests once without a mutant. Exits if one fails."""
    out = Path("baseline.json")

    def record() -> int:
        measured = coverage.Coverage(data_file=None, config_file=False, source=[f"src/{room}"])
        recorded = Recorded(measured)
        with measured.collect():
            code = pytest.main([*PYTEST, *tests], plugins=[recorded])
        found = {}
        lines = missed = 0
        for file in measured.get_data().measured_files():
            _, statements, _, missing, _ = measured.analysis2(file)
            lines, missed = lines + len(statements), missed + len(missing)
            found[os.path.relpath(file)] = measured.get_data().contexts_by_lineno(file)
        modules = [name for name, each in sys.modules.items() if "site-packages" in str(getattr(each, "__spec__", ""))]
        out.write_text(json.dumps([lines - missed, lines, found, recorded.seconds, sorted(modules)]))
        return int(code)

    code, seconds = run_fork(record)
    if code:
        sys.exit(f"{room}: its tests fail without a mutant:\n{Path('output.txt').read_text()[-2000:]}")
    covered, lines, found, cost, modules = json.loads(out.read_text())
    # Once for all forks.
    for name in modules:
        with suppress(Exception):
            import_module(name)
    by_line = {file: {int(line): names for line, names in each.items()} for file, each in found.items()}
    print(f"{room}: {len(tests)} files of tests, {seconds:.1f} s of the processor", file=sys.stderr, flush=True)
    return Baseline(seconds, covered, lines, cost, by_line)


def find_places(file: str) -> Iterator[list[Mutant]]:
    """Yield the mutants of each place in a file that can be changed."""
    source = Path(file).read_text()
    untested = find_annotations(source)
    nodes = list(ast_nodes(get_ast(source)))
    places: dict[tuple[int, int], list[Mutant]] = {}
    for name in OPERATORS:
        operator = OperatorProvider()[name]()
        starts = (start for node in nodes for start, _ in operator.mutation_positions(node))
        for occurrence, start in enumerate(starts):
            if not any(first <= start < end for first, end in untested):
                places.setdefault(start, []).append(Mutant(file, start[0], name, occurrence))
    yield from (places[start] for start in sorted(places))


def find_annotations(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return where annotations begin and end, and lines about TYPE_CHECKING, which is for type checkers alone."""
    found: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.arg, ast.AnnAssign)):
            found.append(node.annotation)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.append(node.returns)
    ranges = [
        ((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)) for node in found if node
    ]
    lines = [number for number, line in enumerate(source.splitlines(), 1) if "TYPE_CHECKING" in line]
    return ranges + [((number, 0), (number + 1, 0)) for number in lines]


def draw_mutants(places: list[list[Mutant]], sample: int, chance: random.Random) -> Iterator[Mutant]:
    """Yield a mutant of each of so many places, without those that are no Python."""
    left = sample
    for place in chance.sample(places, len(places)):
        mutant = chance.choice(place)
        if left and is_python(mutate(mutant)):
            left -= 1
            yield mutant


def is_python(source: str) -> bool:
    with suppress(SyntaxError):
        return bool(ast.parse(source))
    return False


def mutate(mutant: Mutant) -> str:
    """Return the text of the mutant's file."""
    operator = OperatorProvider()[mutant.operator]()
    return str(MutationVisitor.mutate_code(Path(mutant.file).read_text(), operator, mutant.occurrence))


def show_change(mutant: Mutant) -> str:
    """Return the line of a mutant, as it was and as it is."""
    before, after = (text.splitlines() for text in (Path(mutant.file).read_text(), mutate(mutant)))
    at = mutant.line - 1
    return f"`{before[at].strip()}` -> `{after[at].strip()}`"


def is_killed(mutant: Mutant, baseline: Baseline) -> bool:
    """Return whether a test fails with the mutant in place: first those that ran its line, then all others."""
    path, original = Path(mutant.file), Path(mutant.file).read_text()
    times = path.stat()
    path.write_text(mutate(mutant))
    nearest = set(baseline.tests.get(mutant.file, {}).get(mutant.line, [])) & baseline.cost.keys()
    try:
        return any(fails(names, baseline) for names in (nearest, baseline.cost.keys() - nearest) if names)
    finally:
        path.write_text(original)
        # Or the compiled file, which is the original's, would not be taken for it.
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        shutil.rmtree(".hypothesis/examples", ignore_errors=True)


def fails(names: Collection[str], baseline: Baseline) -> bool:
    """Return whether one of the tests fails, or never ends."""

    def run() -> int:
        # A compiled file of a mutant could be taken for that of the next: its age is known in seconds only.
        sys.dont_write_bytecode = True
        files = sorted({name.partition("::")[0] for name in names})
        return int(pytest.main([*PYTEST, *files], plugins=[Chosen(names, baseline.cost)]))

    return run_fork(run, int(10 * baseline.seconds) + LEAST_SECONDS)[0] != 0


def run_fork(work: Callable[[], int], limit: int = 0) -> tuple[int, float]:
    """Run it in a process of its own; return its wait status and the seconds that it had of the processor."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
            if limit:
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status, usage = os.wait4(child, 0)
    return status, usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
