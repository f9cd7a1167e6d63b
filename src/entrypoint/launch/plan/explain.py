"""Shows what would be started, and why, as text or JSON. Starts nothing."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from launch.base.process_spec import ProcessSpec
from launch.base.variables import family_of
from launch.plan.host_plan import HostPlan

# The version of what the launcher promises to places and scripts: docs/stability.md
CONTRACT = 1


def as_json(plan: HostPlan, gpus: Mapping[str, Any] | None = None) -> str:
    """Return the whole plan as one JSON object; on a GPU host, its GPUs too."""
    return json.dumps({**as_data(plan), **({"gpus": gpus} if gpus else {})}, indent=2)


def as_data(plan: HostPlan) -> dict[str, Any]:
    """Return the object that `as_json` prints."""
    request, context, launch, install, _ = plan
    cluster, job = request.cluster, context.job
    before, processes = (
        [_process_as_data(process, request.environ) for process in planned]
        for planned in ((*install, *launch.before), launch.processes)
    )
    env = changed_variables(context.env, request.environ)
    names = sorted({name for each in ({"env": env}, *before, *processes) for name in each["env"]})
    return {
        "contract": CONTRACT,
        "cluster": {
            "source": cluster.source,
            "hosts": cluster.hosts,
            "current_host": cluster.current_host,
            "groups": [group._asdict() for group in cluster.groups],
            "current_group": cluster.current_group,
            "is_heterogeneous": cluster.is_heterogeneous,
            "network_interface": cluster.network_interface,
            "distribution_groups": request.groups,
            "distribution_hosts": cluster.hosts_of(request.groups),
            "ends_with": request.members,
            "leader": (request.hosts or cluster.hosts)[0],
        },
        "job": {
            "program": job.program,
            "entry_point": context.entry._asdict(),
            "hyperparameters": job.hyperparameters,
            "framework_parameters": job.framework_parameters,
            "arguments": job.arguments,
            "channels": {name: request.paths.channel(name) for name in job.channels},
        },
        "devices": request.devices._asdict(),
        "strategy": launch.strategy,
        "env": env,
        "reasons": {name: reason_for(name) for name in names},
        "before": before,
        "processes": processes,
        "decisions": [decision._asdict() for decision in launch.decisions],
    }


def as_text(plan: HostPlan, gpus: Sequence[str] = ()) -> str:
    """Show the same to a person: what all processes get stands once, every variable with the reason for it."""
    data = as_data(plan)
    lines = [f"host {data['cluster']['current_host']} of {', '.join(data['cluster']['hosts'])}"]
    lines += [f"devices: {', '.join(f'{name} {value}' for name, value in data['devices'].items())}", *gpus]
    lines += [f"{decision['what']}: {decision['why']}" for decision in data["decisions"]]
    lines += ["variables of every process:", *_variable_lines(data["env"], data["reasons"])]
    for process in (*data["before"], *data["processes"]):
        own = {name: value for name, value in process["env"].items() if data["env"].get(name) != value}
        lines += [f"{process['role']}, rank {process['rank']}, in {process['cwd']}:"]
        lines += [f"  {shlex.join(process['argv'])}", *_variable_lines(own, data["reasons"])]
    return "\n".join(lines)


def reason_for(name: str) -> str:
    """Return why a variable is set, as docs/launcher-reference.md says; empty if it is not in the table."""
    variable = family_of(name)
    return variable.why if variable else ""


def _variable_lines(env: Mapping[str, str], reasons: Mapping[str, str]) -> list[str]:
    """Return a line for each, its reason behind it; variables of one reason (SM_*) have it above the first."""
    lines, told = [], ""
    for name in sorted(env, key=lambda name: (name.startswith("SM_"), name)):
        why = reasons[name]
        if name.startswith("SM_"):
            lines += [f"    # {why}"] if why != told else []
            lines.append(f"    {name}={env[name]}")
        else:
            lines.append(f"    {name}={env[name]}" + (f"    # {why}" if why else ""))
        told = why
    return lines


def changed_variables(env: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the launcher sets or changes, sorted by name."""
    return dict(sorted(env.items() - environ.items()))


def _process_as_data(process: ProcessSpec, environ: Mapping[str, str]) -> dict[str, Any]:
    return {**process._asdict(), "env": changed_variables(process.env, environ)}
