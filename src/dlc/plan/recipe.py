"""Whether a Dockerfile and what a plan hands to it fit: no ARG unread or unset, no context unknown or unused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dlc.buildspec.problems import did_you_mean
from dlc.core.errors import RecipeError
from dlc.plan.dockerfile import PREDEFINED, Dockerfile, Stage, parse


def require_fit(path: str, text: str, args: Mapping[str, str], contexts: Mapping[str, str]) -> None:
    """Raise one RecipeError with a `path:line:` line for each way in which they do not fit."""
    recipe = parse(text)
    found = sorted({*_arguments(recipe, args), *_contexts(recipe, contexts)})
    if found:
        lines = "\n".join(f"{path}:{line}: {message}" for line, message in found)
        raise RecipeError(lines, "make the Dockerfile and the arguments and contexts of `dlc plan` agree")


def _arguments(recipe: Dockerfile, args: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    declared = set(recipe.arguments).union(*(stage.arguments for stage in recipe.stages))
    for name in sorted(set(args) - declared):
        near = did_you_mean(name, declared)
        yield 1, f"{name}: expected an ARG for this build argument, found none" + (f"; {near}" if near else "")
    yield from _global_arguments(recipe, args)
    for stage in recipe.stages:
        yield from _stage_arguments(recipe, stage, declared, args)


def _global_arguments(recipe: Dockerfile, args: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """A global ARG is read by a FROM line, or by a stage that declares it again without a default."""
    for argument in recipe.arguments.values():
        again = any(argument.name in stage.arguments for stage in recipe.stages)
        if argument.name not in recipe.reads and not again and argument.name not in PREDEFINED:
            yield argument.line, f"ARG {argument.name}: expected a FROM or a stage that reads it, found none"
        if argument.default is None and argument.name not in args and argument.name not in PREDEFINED:
            yield argument.line, f"ARG {argument.name}: expected a value, found no default and no build argument"


def _stage_arguments(
    recipe: Dockerfile, stage: Stage, declared: set[str], args: Mapping[str, str]
) -> Iterator[tuple[int, str]]:
    heirs = [other for other in recipe.stages if other is stage or stage in list(recipe.parents(other))]
    for argument in stage.arguments.values():
        if argument.name in PREDEFINED:
            continue
        if not any(argument.name in heir.reads for heir in heirs):
            yield argument.line, f"ARG {argument.name}: expected ${argument.name} in stage {stage.name}, found none"
        given = argument.default is not None or argument.name in args or argument.name in recipe.arguments
        if not given:
            yield argument.line, f"ARG {argument.name}: expected a value, found no default and no build argument"
    visible = set(stage.arguments).union(*(parent.arguments for parent in recipe.parents(stage)))
    for name, line in stage.reads.items():
        if name in declared and name not in visible:
            yield line, f"${name}: expected `ARG {name}` in stage {stage.name}, found it in other stages only"


def _contexts(recipe: Dockerfile, contexts: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    external = recipe.external()
    for name, line in external.items():
        if name not in contexts:
            near = did_you_mean(name, [*contexts, *(stage.name for stage in recipe.stages)])
            known = ", ".join(sorted(contexts)) or "none"
            yield line, f"{name}: expected a stage or a named context ({known})" + (f"; {near}" if near else "")
    for name in sorted(set(contexts) - set(external)):
        yield 1, f"named context {name}: expected a FROM, COPY --from or --mount that uses it, found none"
