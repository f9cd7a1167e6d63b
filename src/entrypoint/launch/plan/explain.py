"""Shows what would be started, and why, as text or JSON. It is the run itself, stopped before its last arrow."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from launch.base.process_spec import ProcessSpec
from launch.plan.interpretation import Interpretation


def as_json(interpretation: Interpretation) -> str:
    """Cluster, job, devices, environment, processes and decisions, as one JSON object."""
    return json.dumps(as_data(interpretation), indent=2)


def as_data(interpretation: Interpretation) -> dict[str, Any]:
    """The object that `as_json` prints."""
    request, context, launch, install, _ = interpretation
    cluster, job = request.cluster, context.job
    return {
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
        "env": added(context.env, request.environ),
        "before": [_process(process, request.environ) for process in (*install, *launch.before)],
        "processes": [_process(process, request.environ) for process in launch.processes],
        "decisions": [decision._asdict() for decision in launch.decisions],
    }


def as_text(interpretation: Interpretation) -> str:
    """The same for a person: no variables of which the platform's contract fixes the value."""
    data = as_data(interpretation)
    lines = [f"host {data['cluster']['current_host']} of {', '.join(data['cluster']['hosts'])}"]
    lines += [f"devices: {', '.join(f'{name} {value}' for name, value in data['devices'].items())}"]
    lines += [f"{decision['what']}: {decision['why']}" for decision in data["decisions"]]
    for process in (*data["before"], *data["processes"]):
        lines += [f"{process['role']}, rank {process['rank']}, in {process['cwd']}:"]
        lines += [f"  {shlex.join(process['argv'])}"]
        lines += [f"    {name}={value}" for name, value in process["env"].items() if not name.startswith("SM_")]
    return "\n".join(lines)


def added(env: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that the launcher sets or changes, sorted by name."""
    return {name: env[name] for name in sorted(env) if environ.get(name) != env[name]}


def _process(process: ProcessSpec, environ: Mapping[str, str]) -> dict[str, Any]:
    return {**process._asdict(), "env": added(process.env, environ)}
