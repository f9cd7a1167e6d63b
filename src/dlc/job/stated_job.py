"""A job with where each of its values was said, so that an error names a line of a file, or an option."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dlc.checked_yaml.problems import Problem, raise_report
from dlc.checked_yaml.validation import validate_node
from dlc.checked_yaml.yaml_layers import Node
from dlc.job.job_spec import Finding, JobSpec


@dataclass(frozen=True)
class StatedJob:
    """A job, and where each value of it was said: at a line of a file, or by an option."""

    spec: JobSpec
    node: Node

    def raise_problems(self, problems: Iterable[Finding]) -> None:
        """Raise one report of (keys to the value, what was expected, what was found); return if there is none."""
        raise_report(
            _shorten(Problem((self.node.at(keys) or self.node).mark, ".".join(map(str, keys)), expected, found))
            for keys, expected, found in problems
        )


def state_job(node: Node, folder: Path, *, is_file: bool) -> StatedJob:
    """Return the job that a node says, whose paths are from a folder: a file's, else the current one.

    Raises one report of all that is wrong.
    """
    spec, problems = validate_node(JobSpec, node)
    raise_report(map(_shorten, problems))
    if spec is None:
        raise AssertionError(node)
    stated = StatedJob(spec.resolve_paths(folder, is_file=is_file), node)
    stated.raise_problems(stated.spec.find_mistakes())
    return stated


def _shorten(problem: Problem) -> Problem:
    """Return the problem of an option without keys, which nobody typed."""
    return problem if problem.mark.line else Problem(problem.mark, "", problem.expected, problem.found, problem.hint)
