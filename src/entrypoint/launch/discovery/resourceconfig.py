"""The cluster as resourceconfig.json tells it: homogeneous, heterogeneous, local mode's short form, with topology."""

from __future__ import annotations

from launch.base.errors import DATA, LaunchError, shown
from launch.base.files import read_object, require_text
from launch.base.paths import Paths
from launch.discovery.cluster import (
    DEFAULT_GROUP,
    DEFAULT_INTERFACE,
    LOCAL_INSTANCE,
    Cluster,
    Group,
    check_hosts,
    check_interface,
    check_member,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def discover(_environ: Mapping[str, str], paths: Paths) -> Cluster | None:
    """Return the file's cluster, None if there is no such file. Raises LaunchError naming the key that is wrong."""
    path = f"{paths.config}/resourceconfig.json"
    config = read_object(path)
    return None if config is None else parse_resourceconfig(path, config)


def parse_resourceconfig(path: str, config: dict[str, Any]) -> Cluster:
    """Return the cluster in `config`; `path` is only for messages."""
    hosts = check_hosts(path, "hosts", config.get("hosts"))
    current_host = require_text(path, "current_host", config.get("current_host"))
    check_member(path, "current_host", current_host, hosts)
    groups = _read_groups(path, config.get("instance_groups"), hosts)
    # The file spells it current_group_name; the API, and nothing that reaches a container, current_instance_group.
    current_group = require_text(path, "current_group_name", _read_stated(config, "current_group_name", DEFAULT_GROUP))
    _check_own_group(path, groups, current_group, current_host)
    _check_topology(path, config.get("topology"))
    return Cluster(
        source="resourceconfig.json",
        hosts=hosts,
        current_host=current_host,
        groups=groups,
        current_group=current_group,
        instance_type=require_text(
            path, "current_instance_type", _read_stated(config, "current_instance_type", LOCAL_INSTANCE)
        ),
        network_interface=check_interface(path, _read_stated(config, "network_interface_name", DEFAULT_INTERFACE)),
        resource_config=config,
        each_group_is_a_job=True,
    )


def _read_stated(config: dict[str, Any], key: str, default: str) -> Any:
    """Return the value under the key. Serializers write null for what is not set."""
    value = config.get(key)
    return default if value is None else value


def _read_groups(path: str, value: object, hosts: tuple[str, ...]) -> tuple[Group, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise LaunchError(DATA, "instance_groups", where=path, expected="a list of groups", found=shown(value))
    groups = tuple(_read_group(path, f"instance_groups[{index}]", item, hosts) for index, item in enumerate(value))
    check_hosts_once(path, groups)
    return groups


def _read_group(path: str, key: str, value: object, hosts: tuple[str, ...]) -> Group:
    if not isinstance(value, dict):
        raise LaunchError(DATA, key, where=path, expected="an object", found=shown(value))
    name = require_text(path, f"{key}.instance_group_name", value.get("instance_group_name"))
    members = check_hosts(path, f"{key}.hosts", value.get("hosts"))
    for host in members:
        check_member(path, f"{key}.hosts", host, hosts)
    return Group(name, require_text(path, f"{key}.instance_type", _read_stated(value, "instance_type", "")), members)


def check_hosts_once(path: str, groups: tuple[Group, ...]) -> None:
    """Raise LaunchError if a host is in two groups: it would have two ranks."""
    owner: dict[str, str] = {}
    for group in groups:
        for host in group.hosts:
            if host in owner:
                raise LaunchError(
                    DATA,
                    "instance_groups",
                    where=path,
                    expected="each host in one group",
                    found=f"{shown(host)} in {shown(owner[host])} and in {shown(group.name)}",
                )
            owner[host] = group.name


def _check_own_group(path: str, groups: tuple[Group, ...], current_group: str, current_host: str) -> None:
    # A name that no group has is tolerated, as SageMaker's toolkit does: such a host has no group mates.
    named = [group for group in groups if group.name == current_group]
    if named and not any(current_host in group.hosts for group in named):
        raise LaunchError(
            DATA,
            "current_group_name",
            where=path,
            expected=f"the group that {shown(current_host)} is in",
            found=shown(current_group),
        )


def _check_topology(path: str, value: object) -> None:
    if value is not None and not isinstance(value, list):
        raise LaunchError(DATA, "topology", where=path, expected="a list", found=shown(value))
