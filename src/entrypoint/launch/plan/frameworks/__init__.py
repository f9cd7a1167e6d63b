"""One framework a file, called as its package, which says in ROW what the other files ask. May import base, discovery,
job, and plan's context, compiler_choice and strategies."""

from __future__ import annotations

import os

from launch.base import compat
from launch.base.compat import NamedTuple
from launch.base.files import package_folders
from launch.base.paths import Paths
from launch.base.process_spec import Decision
from launch.discovery.devices import Devices
from launch.job.entry_point import EntryPoint
from launch.plan.compiler_choice import CompilerChoice
from launch.plan.context import Context
from launch.plan.strategies import Strategy, StrategyChoice, answer_nothing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class HostFacts(NamedTuple):
    """What a framework's variables depend on."""

    installed: frozenset[str]
    devices: Devices
    paths: Paths
    venv: str
    run_dir: str
    region: str
    records_collectives: bool
    uses_xla: bool


class Framework(NamedTuple):
    """What the launcher sets, checks and says for a framework. What a row leaves out answers nothing."""

    title: str
    # Returns variables of every process; the user's own win
    variables: Callable[[HostFacts], dict[str, str]] = answer_nothing
    # Returns more variables, and why, for a script in a folder
    script_variables: Callable[
        [EntryPoint, str, frozenset[str], Mapping[str, str]], tuple[dict[str, str], tuple[Decision, ...]]
    ] = answer_nothing
    # Returns warnings of a strategy below which processes with these variables fail
    find_warnings: Callable[[Strategy, Mapping[str, str], frozenset[str]], tuple[Decision, ...]] = answer_nothing
    # Returns what to do about the last lines of a script, "" if it has no advice
    find_advice: Callable[[Iterable[str], Mapping[str, str]], str] = answer_nothing
    # Those that compile it
    compilers: tuple[str, ...] = ()
    # Raises LaunchError if the image or the job does not fit a compiler
    require_compiler: Callable[[Context, CompilerChoice, StrategyChoice | None], None] = answer_nothing
    # Returns what a compiler reads of its own, given the folder for dumps or ""
    compiler_variables: Callable[[str, Devices, str], dict[str, str]] = answer_nothing
    # Returns how to choose the compiler that works in this image
    compiler_remedy: Callable[[Context], str] = answer_nothing
    # Whether its ranks can say which collective of NCCL they wait in
    records_collectives: bool = False


def load_frameworks(installed: frozenset[str]) -> list[Framework]:
    """Return the rows of the frameworks that the image holds, all rows if that is unknown."""
    names = compat.list_modules(__path__)
    return [compat.load_module(f"{__name__}.{name}").ROW for name in names if not installed or name in installed]


def find_installed(venv: str) -> frozenset[str]:
    """Return what lies in a virtual environment's folders of packages; empty if no framework that is known does."""
    names = {name for folder in package_folders(venv) for name in os.listdir(folder)}
    return frozenset(names if not names.isdisjoint(compat.list_modules(__path__)) else ())
