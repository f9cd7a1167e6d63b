"""Whether the compiler can work here, and its variables. Loaded only when a job asks for a compiler."""

from __future__ import annotations

from launch.base.paths import Paths
from launch.discovery.devices import Devices
from launch.plan.compiler_choice import DEBUG, DEFAULT, INDUCTOR, SWITCH, XLA, CompilerChoice
from launch.plan.context import Context
from launch.plan.frameworks import load_frameworks
from launch.plan.strategies import StrategyChoice

REPORT = "DLC_COMPILER_REPORT"
# Of one process, each in a few files
MOST_MODULES = 200


def require_supported(context: Context, found: CompilerChoice, strategy: StrategyChoice | None) -> None:
    """Raise LaunchError unless the image and the job fit the compiler. Of an unknown environment all is believed.

    `strategy` is None for hosts that are no part of the distributed group.
    """
    if not found.backend:
        found.refuse("the image names no compiler", f"{DEFAULT} in the image", "none", _nearest_remedy(context))
    if not context.installed:
        return
    rows = load_frameworks(context.installed)
    able = [row for row in rows if found.backend in row.compilers]
    for row in able:
        row.require_compiler(context, found, strategy)
    if not able:
        titles = [row.title for row in load_frameworks(frozenset()) if found.backend in row.compilers]
        what, expected = f"{found.backend} compiles {' and '.join(titles)}", f"an image with {' or '.join(titles)}"
        found.refuse(what, expected, rows[0].title, _nearest_remedy(context))


def _nearest_remedy(context: Context) -> str:
    """Return what works in this image, or where it would."""
    if not context.installed:
        return f"set {SWITCH}={INDUCTOR}"
    remedies = (row.compiler_remedy(context) for row in load_frameworks(context.installed))
    return next(filter(None, remedies), f"set {SWITCH}=off")


def compiler_variables(
    found: CompilerChoice, installed: frozenset[str], devices: Devices, paths: Paths
) -> dict[str, str]:
    """Return the defaults for the frameworks that the image holds; for all that are known if that is unknown."""
    folder = f"{paths.output_data}/compiler"
    dumps = f"{folder}/debug" if found.debug else ""
    result = {SWITCH: found.backend, REPORT: folder, **({DEBUG: "1"} if found.debug else {})}
    for row in load_frameworks(installed):
        result.update(row.compiler_variables(found.backend, devices, dumps) or {})
    if found.backend == XLA and dumps:
        result["XLA_FLAGS"] = f"--xla_dump_to={dumps}/hlo --xla_dump_max_hlo_modules={MOST_MODULES}"
    return result
